// Package demo holds the model that is built into muster, so that a first
// tale needs no download, and its reference probe. It knows nothing of how
// either is read or run.
//
// How the model was made stands in tools/tale, how the probe in tools/probe.
package demo

import _ "embed"

// Name is what the built-in model is called on the command line.
const Name = "tale"

var (
	//go:embed tale-q8_0.gguf
	tale []byte
	//go:embed tale-q8_0.probe
	probe []byte
)

// Tale returns the GGUF file of the built-in model: llama, 8 layers, width 128,
// vocabulary 1280, context 512, Q8_0. The bytes are the program's own and must
// not be changed.
func Tale() []byte { return tale }

// Probe returns the reference probe of the built-in model, in the form of
// package preset. The bytes are the program's own likewise.
func Probe() []byte { return probe }
