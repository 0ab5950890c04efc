package admit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
)

func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func nodeOf(n byte) id.NodeID { return id.NodeIDOf(keyOf(n).Public().(ed25519.PublicKey)) }

func digestOf(n byte) Digest { return Digest(bytes.Repeat([]byte{n}, 32)) }

func challengeOf(n byte) Challenge { return Challenge(bytes.Repeat([]byte{n}, 32)) }

// runOf is shaped as a UUID of version 7.
func runOf(n byte) id.RunID { return id.RunID{0: n, 6: 0x70, 8: 0x80} }

// Stages of a model with eight layers.
var (
	first  = [2]int{0, 3}
	middle = [2]int{3, 6}
	last   = [2]int{6, 8}
)

// report is a sound one of node n under its boot n, for challenge 1.
func report(n byte, layers [2]int) Report {
	r := Report{
		Schema: Schema,
		Binding: Binding{
			Purpose: ForStage, Run: runOf(1), Attempt: 2, Pool: "home", Epoch: 3,
			Orchestrator: nodeOf(200), Node: nodeOf(n), Boot: id.BootID{n},
			Revision: digestOf(10), Layers: layers, Depth: 8,
			Digests:    Digests{Slice: digestOf(11), Recipe: digestOf(13), Backend: digestOf(14)},
			Referenced: true,
		},
		Challenge: challengeOf(1),
		Sequence:  7,
		Capacity:  Capacity{Context: 1024, Slots: 4, ResidentBytes: 1 << 30},
		Speed:     Speed{TokenMicros: 900, ChunkMicros: 20_000, ChunkTokens: 64},
		Age:       time.Second,
	}
	if layers[0] == 0 {
		r.Embedding = digestOf(12)
	}
	for _, name := range probe.Required(true, layers == last) {
		r.Checks = append(r.Checks, probe.Check{Name: name, Passed: true, Got: sound[name][0], Limit: sound[name][1]})
	}
	return r
}

// sound has, for each check, a figure that passes and its limit.
var sound = map[string][2]float64{
	probe.Slice: {0, 0}, probe.Finite: {0, 0}, probe.Cosine: {0.9999, 0.999}, probe.Relative: {0.01, 0.05},
	probe.TopToken: {0, 0}, probe.Repeat: {0, 0}, probe.Stepwise: {0.02, 0.05}, probe.Sensitive: {0.7, 0},
	probe.Rollback: {0, 0}, probe.Full: {1024, 1024}, probe.Memory: {1 << 30, 1 << 30}, probe.Decode: {900, 0}, probe.Prefill: {312.5, 0},
}

// wantOf is what a judge wants who wants just this report.
func wantOf(r Report) Want {
	return Want{
		Binding: r.Binding, Challenge: r.Challenge, After: r.Sequence - 1,
		Context: r.Capacity.Context, Slots: r.Capacity.Slots, ResidentBytes: r.Capacity.ResidentBytes,
		Tolerance: probe.Tolerance{Cosine: 0.999, Relative: 0.05},
	}
}

// soon is a judgement 10 s after the challenge and at once after the signing.
var soon = Times{Now: 110 * time.Second, Issued: 100 * time.Second, Signed: 110 * time.Second}

func sign(t testing.TB, n byte, r Report) Signed {
	t.Helper()
	s, f := Sign(keyOf(n), r)
	if f != nil {
		t.Fatal(f)
	}
	return s
}

// wantCode fails where f is another fault than code; "" wants none.
func wantCode(t testing.TB, f *fault.Fault, code fault.Code) {
	t.Helper()
	switch {
	case f == nil && code != "":
		t.Errorf("nothing was refused, want %s", code)
	case f != nil && !errors.Is(f, code):
		t.Errorf("refused by %s (%v), want %q", f.Code, f, code)
	}
}
