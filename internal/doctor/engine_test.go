package doctor

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/rig"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
	"muster/internal/weights"
	"muster/internal/wire"
)

// examined is what the examination of a worker found.
func examined(t *testing.T, r *rig.Rig, e Exam) Findings {
	t.Helper()
	f, err := Examine(t.Context(), r, e)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// catches demands that an examination failed by one of the checks.
func catches(t *testing.T, f Findings, checks ...string) {
	t.Helper()
	for _, name := range past(f) {
		if slices.Contains(checks, name) {
			return
		}
	}
	t.Errorf("none of %v failed: %v, %+v", checks, f.Fault, f.Checks)
}

// Good shards pass at every place, by every recipe, with and without a
// reference.
func TestGoodShardsOfTheEnginePass(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	with := func(change func(*wire.Recipe)) wire.Recipe {
		r := served
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		model  func(t *testing.T) *model
		layers []gguf.Range
		recipe wire.Recipe
	}{
		"tale":               {tale, []gguf.Range{{Start: 0, End: 3}, {Start: 3, End: 6}, {Start: 6, End: 8}, {Start: 0, End: 8}}, served},
		"a small context":    {tale, []gguf.Range{{Start: 3, End: 6}}, with(func(r *wire.Recipe) { r.Context, r.Chunk = 64, 16 })},
		"one slot":           {tale, []gguf.Range{{Start: 6, End: 8}}, with(func(r *wire.Recipe) { r.Slots, r.Chunk = 1, 256 })},
		"seven slots":        {tale, []gguf.Range{{Start: 6, End: 8}}, with(func(r *wire.Recipe) { r.Slots, r.Chunk = 7, 8 })},
		"deterministic":      {tale, []gguf.Range{{Start: 0, End: 3}, {Start: 6, End: 8}}, with(func(r *wire.Recipe) { r.Slots, r.Deterministic = 2, true })},
		"no flash attention": {tale, []gguf.Range{{Start: 0, End: 3}, {Start: 6, End: 8}}, with(func(r *wire.Recipe) { r.FlashAttention = "off" })},
		"no repack":          {tale, []gguf.Range{{Start: 3, End: 6}}, with(func(r *wire.Recipe) { r.Repack = false })},
		"KV of q8_0":         {of(randmodel.Config{Width: 256}), []gguf.Range{{Start: 0, End: 1}, {Start: 2, End: 3}}, with(func(r *wire.Recipe) { r.KVType = "q8_0" })},
		"q4_k":               {of(randmodel.Config{Type: "q4_k", Layers: 8}), []gguf.Range{{Start: 0, End: 7}, {Start: 1, End: 8}}, served},
		"thrown experts":     {of(randmodel.Config{Experts: 8, Type: "q8_0", Layers: 8, Seed: 3}), []gguf.Range{{Start: 0, End: 7}}, served},
		"qwen3moe":           {of(randmodel.Config{Architecture: "qwen3moe", Type: "q8_0"}), []gguf.Range{{Start: 0, End: 1}, {Start: 1, End: 3}}, served},
		"gemma3":             {of(randmodel.Config{Architecture: "gemma3", Type: "q8_0"}), []gguf.Range{{Start: 0, End: 6}, {Start: 6, End: 12}}, served},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.model(t)
			for _, layers := range c.layers {
				r := m.load(layers, c.recipe)
				e := m.exam(layers, c.recipe, r)
				for _, ref := range []*probe.Reference{nil, m.reference(layers, c.recipe)} {
					e.Reference = ref
					f := examined(t, r, e)
					if why := f.Failed(); why != nil {
						t.Errorf("layers %v, reference %v: %v", layers, ref != nil, why)
					}
					if want := probe.Required(ref != nil, e.Last); !slices.Equal(names(f.Checks), want) || f.Held != c.recipe.Context {
						t.Errorf("layers %v, reference %v: checks %v, %d tokens held", layers, ref != nil, names(f.Checks), f.Held)
					}
				}
			}
		})
	}
}

// Serving after an examination gives what it gives without one.
func TestAnExaminedWorkerServesAsANewOne(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	m, layers := tale(t), gguf.Range{Start: 0, End: 8}
	fresh, r := m.load(layers, served), m.load(layers, served)
	examined(t, r, m.exam(layers, served, r))
	p := probe.Passage{Prompt: probe.Prompt{Tokens: ids(100, m.shape.Vocabulary)}}
	_, want := run(t, fresh, served.Chunk, p, m.shape.Width)
	if _, got := run(t, r, served.Chunk, p, m.shape.Width); relative(got, want, len(want)) != 0 {
		t.Error("other logits after the examination")
	}
}

// A bit that is turned in the slice, between its writing and its loading or
// later, is seen by the digest of what the engine was handed.
func TestATurnedBitInTheSliceIsCaught(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	m, layers, dir := tale(t), gguf.Range{Start: 3, End: 4}, t.TempDir()
	cfg := m.config(layers, served)
	var err error
	cfg.Cache, err = weights.OpenCache(dir)
	must(t, err)
	r, err := rig.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(r.Close)
	path, err := filepath.Glob(filepath.Join(dir, "slices", "*.gguf"))
	must(t, err)
	file, err := os.OpenFile(path[0], os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	turn := func(at int64, bit int) {
		var b [1]byte
		_, err := file.ReadAt(b[:], at)
		must(t, err)
		b[0] ^= 1 << bit
		_, err = file.WriteAt(b[:], at)
		must(t, err)
	}
	plan := r.Slices()[0].Plan
	for i, tensor := range plan.Tensors {
		at, bit := tensor.Offset+tensor.Size*int64(i)/int64(len(plan.Tensors)), i%8
		turn(at, bit)
		f := examined(t, r, m.exam(layers, served, r))
		if slice := f.Checks[0]; slice.Name != probe.Slice || slice.Passed || slice.Got != 1 {
			t.Errorf("bit %d of byte %d in %s: %+v", bit, at, tensor.Name, slice)
		}
		turn(at, bit)
	}
	if f := examined(t, r, m.exam(layers, served, r)); f.Failed() != nil {
		t.Errorf("with all bits turned back: %v", f.Failed())
	}
}

// A scale, exponent or sign that flips after the digest was taken is seen by
// the numbers, in every kind of tensor.
func TestAFlipAfterTheDigestIsCaughtByTheNumbers(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	layers := gguf.Range{Start: 2, End: 4}
	const block = 34 // bytes of a Q8_0 block: its scale and 32 weights
	scales := func(n int, bit byte) func(b []byte) {
		return func(b []byte) {
			for i := range n {
				b[(8+i)*block+1] ^= bit
			}
		}
	}
	single := func(bit byte) func(b []byte) { return func(b []byte) { b[4*100+3] ^= bit } }
	kinds := []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}
	for name, c := range map[string]struct {
		model   func(t *testing.T) *model
		change  func(b []byte)
		tensors []string
	}{
		"signs of two rows":    {tale, scales(8, 0x80), kinds}, // one block alone does less than other batches, in some tensors
		"exponent of a scale":  {tale, scales(1, 0x40), kinds},
		"exponent of a weight": {of(randmodel.Config{Width: 256, Layers: 6}), single(0x40), kinds},
		"sign of a norm":       {tale, single(0x80), []string{"attn_norm", "ffn_norm"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := c.model(t)
			ref := m.reference(layers, served)
			for _, tensor := range c.tensors {
				bad := m.with("blk.2."+tensor+".weight", c.change)
				r, err := rig.Start(t.Context(), bad.config(layers, served))
				if errors.Is(err, fault.StageRowsNotFinite) {
					continue // its load has seen it by its trial forward
				}
				must(t, err)
				e := trusting(m.exam(layers, served, r))
				e.Reference = ref
				f := examined(t, r, e)
				t.Logf("%s: %v", tensor, f.Checks)
				catches(t, f, probe.Cosine, probe.Relative, probe.Finite)
				r.Close()
			}
		})
	}
}

// Another shard than the one that was asked for is seen by the digest, and by
// the numbers where that was passed.
func TestAnotherShardIsCaught(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	layers := gguf.Range{Start: 3, End: 5}
	asked := random(t, randmodel.Config{Width: 256, Layers: 8, Type: "q8_0", Seed: 1})
	ref := asked.reference(layers, served)
	for name, c := range map[string]struct {
		held   randmodel.Config
		layers gguf.Range
	}{
		"layers off by one":    {randmodel.Config{Width: 256, Layers: 8, Type: "q8_0", Seed: 1}, gguf.Range{Start: 2, End: 4}},
		"another revision":     {randmodel.Config{Width: 256, Layers: 8, Type: "q8_0", Seed: 2}, layers},
		"another quantisation": {randmodel.Config{Width: 256, Layers: 8, Type: "q4_0", Seed: 1}, layers},
	} {
		t.Run(name, func(t *testing.T) {
			r := random(t, c.held).load(c.layers, served)
			catches(t, examined(t, r, asked.exam(layers, served, r)), probe.Slice)
			e := trusting(asked.exam(layers, served, r))
			e.Reference = ref
			catches(t, examined(t, r, e), probe.Cosine)
		})
	}
}

// NaN in a weight of a layer ends the load, by its trial forward; in the
// embedding, which that does not touch, it ends the examination.
func TestNaNInAWeightIsCaught(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	m := random(t, randmodel.Config{Layers: 2})
	nan := func(b []byte) {
		for at := 0; at < len(b); at += 4 * m.shape.Width {
			copy(b[at:], []byte{0, 0, 0xc0, 0x7f})
		}
	}
	layers := gguf.Range{Start: 0, End: 1}
	bad := m.with("blk.0.ffn_norm.weight", nan)
	if r, err := rig.Start(t.Context(), bad.config(layers, served)); !errors.Is(err, fault.StageRowsNotFinite) {
		t.Errorf("a norm of NaN loads: %v", err)
		if err == nil {
			r.Close()
		}
	}
	bad = m.with("token_embd.weight", nan)
	r := bad.load(layers, served)
	f := examined(t, r, trusting(m.exam(layers, served, r)))
	catches(t, f, probe.Finite)
	if why := f.Failed(); why.Attr("check") != probe.Finite || !errors.Is(why, fault.StageRowsNotFinite) {
		t.Errorf("it failed by %v", why)
	}
}

// A KV cache of another type than the recipe says is seen by what a token takes
// in it, whatever the weights are.
func TestAnotherKVTypeIsCaught(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	layers := gguf.Range{Start: 1, End: 3}
	for _, c := range []struct{ weights, held, asked string }{
		{"f32", "q8_0", "f16"},
		{"q4_k", "q8_0", "f16"},
		{"q8_0", "f32", "f16"},
		{"q8_0", "f16", "q8_0"},
	} {
		m := random(t, randmodel.Config{Width: 256, Layers: 3, Type: c.weights})
		held, asked := served, served
		held.KVType, asked.KVType = c.held, c.asked
		r := m.load(layers, held)
		e := m.exam(layers, asked, r)
		if f := examined(t, r, e); f.Fault == nil || f.Fault.Code != fault.DoctorCacheMismatched {
			t.Errorf("%s weights, a cache of %s for %s: %v", c.weights, c.held, c.asked, f.Failed())
		}
	}
}

// A worker that holds fewer cells than the recipe says, or more memory than the
// plan was told, fails at full context.
func TestAFullContextIsHeldInTheMemoryThatWasPlanned(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	m, layers := random(t, randmodel.Config{Width: 256, Layers: 2, Heads: 8, Context: 2048}), gguf.Range{Start: 0, End: 1}
	large := wire.Recipe{Context: 2048, Slots: 2, Chunk: 256, Threads: 1, KVType: "f16", FlashAttention: "off", Repack: true}
	r := m.load(layers, large)
	e := m.exam(layers, large, r)
	f := examined(t, r, e)
	if f.Failed() != nil || f.Held != 2048 {
		t.Fatalf("%v, %d tokens held", f.Failed(), f.Held)
	}
	loaded := r.Loaded().ResidentBytes
	if f.ResidentBytes < loaded+4<<20 {
		t.Fatalf("%d bytes at full context, %d when it had loaded: nothing can be seen", f.ResidentBytes, loaded)
	}
	fresh := m.load(layers, large)
	e.MemoryPlanned = (loaded + f.ResidentBytes) / 2
	catches(t, examined(t, fresh, e), probe.Memory)
	e.MemoryPlanned = f.ResidentBytes + f.ResidentBytes/10
	if f := examined(t, fresh, e); f.Failed() != nil {
		t.Errorf("within the plan: %v", f.Failed())
	}
	// What the whole takes is known before it is filled.
	projected := m.load(layers, large)
	e.FillWithin = 1
	if g := examined(t, projected, e); !g.Projected() || math.Abs(float64(g.ResidentBytes)/float64(f.ResidentBytes)-1) > 0.1 {
		t.Errorf("concluded %d from %d tokens, measured %d", g.ResidentBytes, g.Held, f.ResidentBytes)
	}
	small := large
	small.Context = 1024
	r = m.load(layers, small)
	g := examined(t, r, trusting(m.exam(layers, large, r)))
	catches(t, g, probe.Full)
	if !errors.Is(g.Fault, fault.StageContextFull) {
		t.Errorf("its cause is %v", g.Fault)
	}
}

// No false alarm of three stages of a good model that are examined again and
// again while others take the processors.
func TestNoFalseAlarmUnderLoad(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	runs := 21
	if strings.Contains(os.Getenv("MUSTER_REQUIRE"), "all") {
		runs = 201
	}
	m := tale(t)
	ctx, calm := context.WithCancel(t.Context())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2*runtime.NumCPU() + 2)) // the load is of the machine, not of Go's scheduler
	var burners, stages sync.WaitGroup
	for range runtime.NumCPU() {
		burners.Go(func() {
			for ctx.Err() == nil {
				for x := 1.0; x < 1e6; x++ {
					_ = math.Sqrt(x)
				}
			}
		})
	}
	for _, layers := range []gguf.Range{{Start: 0, End: 3}, {Start: 3, End: 6}, {Start: 6, End: 8}} {
		r := m.load(layers, served)
		e := m.exam(layers, served, r)
		e.Reference = m.reference(layers, served)
		stages.Go(func() {
			for i := range runs / 3 {
				f, err := Examine(ctx, r, e)
				if err != nil || f.Failed() != nil {
					t.Errorf("layers %v, run %d: %v, %v", layers, i, err, f.Failed())
				}
			}
		})
	}
	stages.Wait()
	calm()
	burners.Wait()
}
