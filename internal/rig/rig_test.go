package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/weights"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const vocabulary = 1280 // of tale

func config(t *testing.T, layers gguf.Range) Config {
	t.Helper()
	b := demo.Tale()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), demo.Name)
	if err != nil {
		t.Fatal(err)
	}
	man, err := gguf.BuildManifest(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := weights.OpenCache("")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Name: "rig", Engine: testkit.EngineDir(t), Binary: testkit.WorkerBinary(t),
		Source: f, Manifest: man, Layers: layers, Cache: cache, Tell: func(event.Event) {},
		Recipe: wire.Recipe{Context: 256, Slots: 1, Chunk: 64, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true},
	}
}

func start(t *testing.T, layers gguf.Range) *Rig {
	t.Helper()
	cfg := config(t, layers)
	testkit.Leaks(t)
	r, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// opening is the item that begins slot 0 with a prompt of n tokens.
func opening(t *testing.T, prompt []int32, marks wire.Mark) wire.Item {
	t.Helper()
	extra, err := json.Marshal(wire.SlotOpen{Sampling: infer.Greedy(), Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Item{Marks: wire.MarkOpen | marks, Generation: 1, Count: len(prompt), Extra: extra}
}

func ids(n int) []int32 {
	prompt := make([]int32, n)
	for i := range prompt {
		prompt[i] = int32(3 + 37*i%(vocabulary-3))
	}
	return prompt
}

func tokens(it wire.Item, prompt []int32) *wire.Record {
	return &wire.Record{Kind: wire.KindTokens, Items: []wire.Item{it}, Tokens: prompt}
}

// Rows handed on by hand lead to the logits of one range over all layers.
func TestRowsCarriedByHandAreExact(t *testing.T) {
	prompt := ids(40)
	it := opening(t, prompt, wire.MarkAnswer|wire.MarkLogits)
	whole, err := start(t, gguf.Range{Start: 0, End: 8}).Step(t.Context(), tokens(it, prompt))
	if err != nil {
		t.Fatal(err)
	}
	first, err := start(t, gguf.Range{Start: 0, End: 3}).Step(t.Context(), tokens(it, prompt))
	if err != nil {
		t.Fatal(err)
	}
	if first.Kind != wire.KindRows || first.Width != 128 || len(first.Rows) != 40*128 {
		t.Fatalf("the first range gave kind %d, width %d, %d floats", first.Kind, first.Width, len(first.Rows))
	}
	last, err := start(t, gguf.Range{Start: 3, End: 8}).Step(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if len(last.Answers) != 1 || len(last.Answers[0].Logits) != vocabulary {
		t.Fatalf("the last range gave %d answers", len(last.Answers))
	}
	if !slices.Equal(last.Answers[0].Logits, whole.Answers[0].Logits) {
		t.Error("the logits of two ranges are not those of one")
	}
}

// What the worker was given can be verified afterwards.
func TestSlicesAreWhatThePlanSays(t *testing.T) {
	r := start(t, gguf.Range{Start: 0, End: 2})
	if n := len(r.Slices()); n != 2 {
		t.Fatalf("a first range has %d slices, want layers and embedding", n)
	}
	for _, s := range r.Slices() {
		if err := s.Plan.Verify(t.Context(), s.File, s.Size, r.cfg.Manifest, nil); err != nil {
			t.Error(err)
		}
	}
	stats, err := r.Stats(t.Context())
	if err != nil || stats.ResidentBytes == 0 {
		t.Errorf("stats: %v, %+v", err, stats)
	}
}

func TestARecordThatTheWorkerRefusesEndsTheRig(t *testing.T) {
	r := start(t, gguf.Range{Start: 0, End: 1})
	prompt := ids(4)
	it := opening(t, prompt, 0)
	it.Marks = 0 // nothing has opened the slot
	it.Extra = nil
	for range 2 {
		if _, err := r.Step(t.Context(), tokens(it, prompt)); !errors.Is(err, fault.StageRecordInvalid) {
			t.Errorf("got %v, want %s", err, fault.StageRecordInvalid)
		}
	}
}

func TestNothingIsLeftOfAStartThatFails(t *testing.T) {
	good := config(t, gguf.Range{Start: 0, End: 1})
	testkit.Leaks(t)
	for name, c := range map[string]struct {
		change func(*Config)
		want   fault.Code
	}{
		"no such layers":   {func(c *Config) { c.Layers.End = 9 }, fault.ModelCutRefused},
		"no worker binary": {func(c *Config) { c.Binary += ".none" }, fault.WorkerBinaryMissing},
		"no engine":        {func(c *Config) { c.Engine += ".none" }, fault.EngineMissing},
		"KV type unknown":  {func(c *Config) { c.Recipe.KVType = "q3_0" }, fault.RecipeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			if r, err := Start(t.Context(), cfg); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
				if err == nil {
					r.Close()
				}
			}
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	cfg := config(t, gguf.Range{Start: 0, End: 1})
	testkit.Leaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Tell = func(e event.Event) {
		if _, started := e.(event.WorkerStarted); started {
			cancel()
		}
	}
	if _, err := Start(ctx, cfg); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("got %v, want %s", err, fault.RunInterrupted)
	}
}
