package orch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/store"
	"muster/internal/testkit"
)

// tokenizing is a world of no nodes whose tokenizer is a real worker.
func tokenizing(t *testing.T, model string) (*Orch, *events) {
	t.Helper()
	engine, binary := testkit.EngineDir(t), testkit.WorkerBinary(t)
	testkit.Leaks(t)
	dir, told := t.TempDir(), &events{}
	o, err := Start(t.Context(), Config{
		KeyPath: filepath.Join(dir, "key"), DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0",
		Pool: store.Pool{Name: "test"}, Profile: "local", Model: Model{Path: model}, Engine: engine, Binary: binary, Tell: told.tell,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return o, told
}

// The tokenizer of the model at a path turns text into tokens, and is started
// again when it is killed.
func TestTheTokenizerComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tale.gguf")
	if err := os.WriteFile(path, demo.Tale(), 0o600); err != nil {
		t.Fatal(err)
	}
	o, ev := tokenizing(t, path)
	until(t, "a tokenizer", func() bool { return o.words.Load() != nil && len(told[event.TokenizerStarted](ev)) == 1 })
	before, err := o.text.tokens(t.Context(), "Once upon a time")
	if err != nil || len(before) < 4 {
		t.Fatal(before, err)
	}
	process, err := os.FindProcess(told[event.TokenizerStarted](ev)[0].PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "its return", func() bool { return len(told[event.TokenizerStarted](ev)) == 2 })
	if lost := told[event.TokenizerLost](ev); len(lost) != 1 || lost[0].Fault.Code != fault.WorkerKilled {
		t.Errorf("lost: %+v", lost)
	}
	after, err := o.text.tokens(t.Context(), "Once upon a time")
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("%v before, %v after, %v", before, after, err)
	}
	until(t, "a published model", func() bool { return len(told[event.ModelPublished](ev)) == 1 })
	if _, size, err := o.model.lookup(o.model.manifest.Revision, 0); err != nil || size != int64(len(demo.Tale())) {
		t.Errorf("%d bytes are offered, %v", size, err)
	}
	if _, _, err := o.model.lookup("another", 0); err == nil {
		t.Error("another revision is offered")
	}
}

// Without a worker to tokenise with, the orchestrator ends by that fault.
func TestAMissingWorkerEndsTheOrchestrator(t *testing.T) {
	dir := t.TempDir()
	o, err := Start(t.Context(), Config{
		KeyPath: filepath.Join(dir, "key"), DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0",
		Pool: store.Pool{Name: "test"}, Profile: "local", Binary: filepath.Join(dir, "none"),
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return o.Err() != nil })
	mustFault(t, o.Err(), fault.WorkerBinaryMissing)
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What cannot be is refused before anything is opened.
func TestConfigsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	sound := Config{KeyPath: filepath.Join(dir, "key"), DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Pool: store.Pool{Name: "p"}}
	for name, c := range map[string]struct {
		change func(*Config)
		code   fault.Code
	}{
		"no key":            {func(c *Config) { c.KeyPath = "" }, fault.OrchConfigInvalid},
		"more stages":       {func(c *Config) { c.Stages = [2]int{9, 9} }, fault.ModelLayersTooFew},
		"a cut at the end":  {func(c *Config) { c.Cuts = []int{8} }, fault.ModelCutRefused},
		"cuts that fall":    {func(c *Config) { c.Cuts = []int{5, 2} }, fault.ModelCutRefused},
		"stages":            {func(c *Config) { c.Stages = [2]int{3, 2} }, fault.OrchConfigInvalid},
		"profile":           {func(c *Config) { c.Profile = "moon" }, fault.MemberProfileUnknown},
		"window":            {func(c *Config) { c.Window = 1 }, fault.MemberWindowInvalid},
		"model":             {func(c *Config) { c.Model.Path = filepath.Join(dir, "none.gguf") }, fault.GGUFFileMissing},
		"unknown built-in":  {func(c *Config) { c.Model.Name = "none" }, fault.GGUFFileMissing},
		"a chunk of minus":  {func(c *Config) { c.Recipe.Chunk = -1 }, fault.RecipeInvalid},
		"a context too big": {func(c *Config) { c.Recipe.Context = 1 << 30 }, fault.RecipeInvalid},
	} {
		cfg := sound
		c.change(&cfg)
		if _, err := start(t.Context(), cfg, spell); err == nil {
			t.Errorf("%s: was taken", name)
		} else {
			mustFault(t, err, c.code)
		}
	}
}

// What is left open is settled by the profile: the window is its floor, and a
// shorter one is refused with the figures that make it so.
func TestFiguresThatAreLeftOpen(t *testing.T) {
	for name, floor := range map[string]time.Duration{"local": 1400 * time.Millisecond, "": 6800 * time.Millisecond, "wan": 32 * time.Second} {
		c := Config{KeyPath: "k", DataDir: "d", Pool: store.Pool{Name: "p"}, Profile: name}
		f, err := c.settle()
		if err != nil || f.gate.Window != floor || c.Step != (StepBounds{Floor: 5 * time.Second, Factor: 20}) {
			t.Errorf("%q: window %s, steps %+v, %v", name, f.gate.Window, c.Step, err)
		}
		c.Window = floor - 1
		_, err = c.settle()
		refused := mustFault(t, err, fault.MemberWindowInvalid)
		if refused.Attr("floor") != floor.String() || !strings.Contains(refused.Error()+refused.Hint(), floor.String()) {
			t.Errorf("%q: it does not say the floor: %v; %s", name, refused, refused.Hint())
		}
		c.Window = 2 * floor
		if f, err = c.settle(); err != nil || f.gate.Window != 2*floor {
			t.Errorf("%q: window %s, %v", name, f.gate.Window, err)
		}
	}
}
