package reference

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/preset"
	"muster/internal/rig"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
	"muster/internal/weights"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tale is the path of the built-in model.
func tale(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tale.gguf")
	if err := os.WriteFile(path, demo.Tale(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func random(t *testing.T, c randmodel.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := randmodel.GenerateFile(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

// config is that of rigs of the model at path, by its default recipe but for
// chunk and context, which are small so that a long prompt is soon computed.
func config(t *testing.T, path string) (rig.Config, *gguf.Model) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	m, err := gguf.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	cfg := rig.Config{
		Name: "rig", Engine: testkit.EngineDir(t), Binary: testkit.WorkerBinary(t),
		Source: f, ThreadsMost: 1, Tell: func(event.Event) {},
	}
	if cfg.Manifest, err = gguf.BuildManifest(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	if cfg.Cache, err = weights.OpenCache(""); err != nil {
		t.Fatal(err)
	}
	cfg.Recipe, err = infer.SettleRecipe(wire.Recipe{Context: 256, Chunk: 96, Repack: true}, m.ContextTrained)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, m
}

// made is the reference of a model, written and read again. On the way its
// progress rises, and not beyond its end.
func made(t *testing.T, cfg rig.Config, m *gguf.Model) *preset.Probe {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe.bin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	w, err := preset.NewProbeWriter(f, Facts(m, cfg))
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	cfg.Tell = func(e event.Event) {
		if p, is := e.(event.ReferenceProgressed); !is || p.Done <= done || p.Done > p.Total {
			t.Errorf("after %d it told %+v", done, e)
		} else {
			done = p.Done
		}
	}
	if err := Make(t.Context(), cfg, w); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := preset.ReadProbe(f, info.Size(), f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exam is a rig before a reference.
type exam struct {
	t    *testing.T
	trip *trip
	ref  *probe.Reference
}

// taken starts a rig, gives its exam to f, and ends it.
func taken(t *testing.T, cfg rig.Config, facts preset.Facts, ref *probe.Reference, f func(*exam)) {
	t.Helper()
	r, err := rig.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	facts.Recipe = cfg.Recipe
	layers := gguf.Range{Start: ref.Layers[0], End: ref.Layers[1]}
	f(&exam{t: t, ref: ref, trip: &trip{rig: r, layers: layers, facts: &facts, passed: func(int) {}}})
}

// away is how far the rig is from the reference, in batches of that kind.
func (e *exam) away(k kind) probe.Difference {
	e.t.Helper()
	worst := probe.None()
	for _, p := range e.ref.Passages {
		e.trip.ids = p.Prompt.Tokens
		got, err := e.trip.through(e.t.Context(), p.In, e.trip.batches(k))
		if err != nil {
			e.t.Fatal(err)
		}
		want := p.Out
		if e.trip.last() {
			want = p.Logits
		}
		worst = worst.Worse(e.trip.apart(got, want))
	}
	return worst
}

func models() map[string]func(*testing.T) string {
	of := func(c randmodel.Config) func(*testing.T) string {
		return func(t *testing.T) string { return random(t, c) }
	}
	return map[string]func(*testing.T) string{
		"tale":        tale,
		"stories260K": func(*testing.T) string { return filepath.Join("..", "..", "..", "testdata", "stories260K.gguf") },
		"f32":         of(randmodel.Config{Layers: 4, Width: 128, Type: "f32"}),
		"q8_0":        of(randmodel.Config{Layers: 4, Width: 128, Type: "q8_0"}),
		"q4_k":        of(randmodel.Config{Layers: 4, Width: 256, Type: "q4_k"}),
		"gemma3":      of(randmodel.Config{Architecture: "gemma3", Type: "q8_0", Layers: 18}),
		"experts":     of(randmodel.Config{Architecture: "qwen3moe", Type: "q8_0", Layers: 4, Width: 128, Experts: 8}),
	}
}

// recipes are others than that of the reference, under which a sound shard is
// sound all the same.
func recipes() map[string]func(*wire.Recipe) {
	return map[string]func(*wire.Recipe){
		"another chunk":           func(r *wire.Recipe) { r.Chunk = 50 },
		"without repacking":       func(r *wire.Recipe) { r.Repack = false },
		"several slots":           func(r *wire.Recipe) { r.Slots = 4 },
		"without flash attention": func(r *wire.Recipe) { r.FlashAttention = "off" },
	}
}

// A sound shard of any range is within the tolerance of its reference, by
// whatever batches it computes, and the shortest and the longest ranges by other
// recipes too. How far within is logged; docs/design/0006 has the figures.
func TestASoundShardOfAnyRangePasses(t *testing.T) {
	for name, path := range models() {
		t.Run(name, func(t *testing.T) {
			cfg, m := config(t, path(t))
			p := made(t, cfg, m)
			least := math.Inf(1)
			try := func(how string, cfg rig.Config, ref *probe.Reference, some ...kind) {
				taken(t, cfg, p.Facts, ref, func(e *exam) {
					for _, k := range some {
						d := e.away(k)
						if !ref.Tolerance.Holds(d) {
							t.Errorf("layers %v, %s, kind %d: %+v, tolerated is %+v", ref.Layers, how, k, d, ref.Tolerance)
						}
						least = min(least, ref.Tolerance.Relative/d.Relative, math.Sqrt((1-ref.Tolerance.Cosine)/max(1-d.Cosine, 1e-15)))
					}
				})
			}
			for i, start := range p.Borders {
				for j := i + 1; j < len(p.Borders); j++ {
					ref, err := p.Reference([2]int{start, p.Borders[j]})
					if err != nil {
						t.Fatal(err)
					}
					of := cfg
					of.Layers = gguf.Range{Start: start, End: p.Borders[j]}
					try("its own recipe", of, ref, whole, other, single)
					if j > i+1 && j-i < len(p.Borders)-1 {
						continue
					}
					for how, change := range recipes() {
						of.Recipe = cfg.Recipe
						change(&of.Recipe)
						try(how, of, ref, whole)
					}
				}
			}
			low, high := math.Inf(1), 0.0
			for _, d := range p.Drifts {
				low, high = min(low, d.Local.Relative), max(high, d.Local.Relative)
			}
			t.Logf("%s: local drift %.4f to %.4f, within the tolerance by a factor of %.1f", name, low, high, least)
		})
	}
}

// Layers off by one, another quantisation of the same model and other weights
// are beyond the tolerance, of a model of experts too.
func TestAnotherShardDoesNotPass(t *testing.T) {
	for name, c := range map[string]struct{ own, other randmodel.Config }{
		"another quantisation": {randmodel.Config{Layers: 3, Width: 128, Type: "q8_0"}, randmodel.Config{Layers: 3, Width: 128, Type: "q4_0"}},
		"other weights":        {randmodel.Config{Layers: 3, Width: 128, Type: "q8_0"}, randmodel.Config{Layers: 3, Width: 128, Type: "q8_0", Seed: 1}},
		"other experts": {
			randmodel.Config{Architecture: "qwen3moe", Layers: 3, Width: 128, Type: "q8_0"},
			randmodel.Config{Architecture: "qwen3moe", Layers: 3, Width: 128, Type: "q8_0", Seed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, m := config(t, random(t, c.own))
			p := made(t, cfg, m)
			wrong, _ := config(t, random(t, c.other))
			for _, layers := range [][2]int{{0, 1}, {1, 2}, {0, 2}, {1, 3}} {
				ref, err := p.Reference(layers)
				if err != nil {
					t.Fatal(err)
				}
				wrong.Layers = gguf.Range{Start: layers[0], End: layers[1]}
				taken(t, wrong, p.Facts, ref, func(e *exam) {
					if d := e.away(whole); ref.Tolerance.Holds(d) {
						t.Errorf("layers %v: %+v is within %+v", layers, d, ref.Tolerance)
					}
				})
			}
		})
	}
	for name, c := range map[string]randmodel.Config{
		"layers off by one":             {Layers: 5, Width: 128, Type: "q8_0"},
		"layers of experts, off by one": {Architecture: "qwen3moe", Layers: 5, Width: 128, Type: "q8_0"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, m := config(t, random(t, c))
			p := made(t, cfg, m)
			for _, layers := range [][2]int{{1, 2}, {2, 3}, {1, 3}} {
				ref, err := p.Reference(layers)
				if err != nil {
					t.Fatal(err)
				}
				cfg.Layers = gguf.Range{Start: layers[0] + 1, End: layers[1] + 1}
				taken(t, cfg, p.Facts, ref, func(e *exam) {
					if d := e.away(whole); ref.Tolerance.Holds(d) {
						t.Errorf("layers %v: %+v is within %+v", layers, d, ref.Tolerance)
					}
				})
			}
		})
	}
}
