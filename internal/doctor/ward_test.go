package doctor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/gguf"
	"muster/internal/preset"
	"muster/internal/rig"
	"muster/internal/rig/reference"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
	"muster/internal/weights"
	"muster/internal/wire"
)

// model is a model as bytes, so that bits of it can be turned.
type model struct {
	t     *testing.T
	bytes []byte
	file  *gguf.File
	shape *gguf.Model
	man   *gguf.Manifest

	probes map[wire.Recipe]*preset.Probe // made so far
}

func read(t *testing.T, b []byte) *model {
	t.Helper()
	m := &model{t: t, bytes: b}
	var err error
	m.file, err = gguf.Read(bytes.NewReader(b), int64(len(b)), "model")
	must(t, err)
	m.shape, err = gguf.Inspect(m.file)
	must(t, err)
	m.man, err = gguf.BuildManifest(t.Context(), m.file, nil)
	must(t, err)
	return m
}

func tale(t *testing.T) *model { return read(t, demo.Tale()) }

func random(t *testing.T, c randmodel.Config) *model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "random.gguf")
	must(t, randmodel.GenerateFile(path, c))
	b, err := os.ReadFile(path)
	must(t, err)
	return read(t, b)
}

// of makes random models of a shape.
func of(c randmodel.Config) func(t *testing.T) *model {
	return func(t *testing.T) *model {
		t.Helper()
		return random(t, c)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// with is the model with a change to the bytes of one tensor.
func (m *model) with(tensor string, change func(b []byte)) *model {
	m.t.Helper()
	at, ok := m.file.Tensor(tensor)
	if !ok {
		m.t.Fatalf("no tensor %s", tensor)
	}
	b := bytes.Clone(m.bytes)
	change(b[at.Offset : at.Offset+at.Size])
	return read(m.t, b)
}

// served is what shards of these tests are run by.
var served = wire.Recipe{Context: 256, Slots: 2, Chunk: 64, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true}

// load has a worker hold layers of a model.
func (m *model) load(layers gguf.Range, recipe wire.Recipe) *rig.Rig {
	m.t.Helper()
	r, err := rig.Start(m.t.Context(), m.config(layers, recipe))
	must(m.t, err)
	m.t.Cleanup(r.Close)
	return r
}

func (m *model) config(layers gguf.Range, recipe wire.Recipe) rig.Config {
	m.t.Helper()
	cache, err := weights.OpenCache("")
	must(m.t, err)
	return rig.Config{
		Name: "worker", Engine: testkit.EngineDir(m.t), Binary: testkit.WorkerBinary(m.t),
		Source: m.file, Manifest: m.man, Layers: layers, Recipe: recipe, Cache: cache, Tell: func(event.Event) {},
	}
}

// exam is that of layers of the model, whatever r holds.
func (m *model) exam(layers gguf.Range, recipe wire.Recipe, r *rig.Rig) Exam {
	m.t.Helper()
	plan, err := gguf.PlanSlice(m.file, m.shape, layers)
	must(m.t, err)
	e := Of(m.file, m.shape, layers, recipe, r.Loaded())
	e.Name = "worker"
	e.Verify = func(ctx context.Context) (int, error) {
		s := r.Slices()[0]
		return plan.Differing(ctx, s.File, s.Size, m.man)
	}
	return e
}

// trusting is the exam whose slice was read before its memory was damaged.
func trusting(e Exam) Exam {
	e.Verify = func(context.Context) (int, error) { return 0, nil }
	return e
}

// reference is what a preset made by the recipe would know of the layers.
func (m *model) reference(layers gguf.Range, recipe wire.Recipe) *probe.Reference {
	m.t.Helper()
	if m.probes == nil {
		m.probes = map[wire.Recipe]*preset.Probe{}
	}
	p := m.probes[recipe]
	if p == nil {
		cfg := m.config(layers, recipe)
		file, err := os.Create(filepath.Join(m.t.TempDir(), "probe.bin"))
		must(m.t, err)
		m.t.Cleanup(func() { _ = file.Close() })
		w, err := preset.NewProbeWriter(file, reference.Facts(m.shape, cfg))
		must(m.t, err)
		must(m.t, reference.Make(m.t.Context(), cfg, w))
		info, err := file.Stat()
		must(m.t, err)
		p, err = preset.ReadProbe(file, info.Size(), file.Name())
		must(m.t, err)
		m.probes[recipe] = p
	}
	ref, err := p.Reference([2]int{layers.Start, layers.End})
	must(m.t, err)
	return ref
}

func ids(n, vocabulary int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32((5 + 97*i + 13*i*i) % vocabulary)
	}
	return all
}

// run feeds a passage by hand.
func run(t *testing.T, r *rig.Rig, chunk int, p probe.Passage, width int) (rows, logits []float32) {
	t.Helper()
	prompt := p.Prompt.Tokens
	for at := 0; at < len(prompt); at += chunk {
		n := min(chunk, len(prompt)-at)
		it := wire.Item{Generation: 1, Position: int32(at), Count: n}
		if at == 0 {
			it.Marks, it.Extra = wire.MarkOpen, opening(len(prompt))
		}
		if at+n == len(prompt) {
			it.Marks |= wire.MarkAnswer | wire.MarkLogits
		}
		in := &wire.Record{Kind: wire.KindTokens, Items: []wire.Item{it}, Tokens: prompt[at : at+n]}
		if p.In != nil {
			in = &wire.Record{Kind: wire.KindRows, Width: width, Items: []wire.Item{it}, Rows: p.In[at*width : (at+n)*width]}
		}
		out, err := r.Step(t.Context(), in)
		must(t, err)
		rows = append(rows, out.Rows...)
		if len(out.Answers) > 0 {
			logits = append(logits, out.Answers[0].Logits...)
		}
	}
	end := &wire.Record{Kind: wire.KindTokens, Items: []wire.Item{{Marks: wire.MarkEnd, Generation: 1, Position: int32(len(prompt))}}}
	if p.In != nil {
		end.Kind, end.Width = wire.KindRows, width
	}
	_, err := r.Step(t.Context(), end)
	must(t, err)
	return rows, logits
}

// opening is the extra of a slot for n tokens.
func opening(n int) []byte {
	b := []byte(`{"sampling":{"top_p":1,"repeat_penalty":1,"logprobs":-1},"prompt":[0`)
	for range n - 1 {
		b = append(b, ",0"...)
	}
	return append(b, "]}"...)
}
