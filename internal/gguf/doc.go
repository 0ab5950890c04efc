// Package gguf reads, describes, cuts and writes model files in the GGUF
// format (versions 2 and 3, little-endian; the format's description is
// docs/gguf.md of ggml).
//
// A File is the header of a model, of one file or of all parts of a split one;
// Inspect makes a Model of it and refuses what Muster does not serve; a
// Manifest holds a digest per tensor; a SlicePlan says which bytes make the
// file of one stage:
//
//	File --Inspect--> Model --+
//	  |                       +--PlanSlice--> SlicePlan --Write--> bytes
//	  +--BuildManifest--> Manifest ------------------------^
//
// Every number of a file is checked against the file's size before memory is
// taken for it, because llama.cpp aborts its process on some of what is
// refused here. The package knows nothing of caches, workers or the engine; it
// starts no goroutine and holds no state besides the files of an open File,
// which whoever opened it closes.
package gguf
