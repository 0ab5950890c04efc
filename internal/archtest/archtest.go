// Package archtest holds the rules of ARCHITECTURE.md as tests: who may import
// whom, what a core may not touch, and the habits of the house that a reader
// relies on. Each rule carries its reason, and each is shown to fail on a made
// up breach, so that none can rot into one that always passes.
//
// Rules name packages that may not be there yet: a missing package breaks
// nothing, and is held to its rule on the day it comes.
//
// It reads the source through `go list` and go/parser and imports nothing of
// ours.
package archtest

// Module is the name in go.mod; packages of ours are written without it.
const Module = "muster"

// Rule is one rule over the import graph.
type Rule struct {
	Name   string
	Reason string
	Check  func(Graph) []string // one line a breach, sorted; nil where the rule holds
}
