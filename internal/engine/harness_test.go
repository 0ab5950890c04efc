package engine

import (
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"muster/internal/gguf"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
	"muster/internal/wire"
)

var loaded struct {
	once sync.Once
	lib  *Library
	err  error
}

// library loads the engine once for all tests of this process.
func library(t testing.TB) *Library {
	t.Helper()
	dir := testkit.EngineDir(t)
	loaded.once.Do(func() { loaded.lib, loaded.err = Load(dir, nil) })
	if loaded.err != nil {
		t.Fatal(loaded.err)
	}
	return loaded.lib
}

// The models of the project.
const (
	stories = "../../testdata/stories260K.gguf"
	tale    = "../demo/tale-q8_0.gguf"
)

// random makes a model with random weights.
func random(t testing.TB, c randmodel.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randmodel.GenerateFile(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

// recipe is what tests run a model by.
func recipe() wire.Recipe {
	return wire.Recipe{Context: 512, Slots: 4, Chunk: 64, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true}
}

func openModel(t testing.TB, path string) *Model {
	t.Helper()
	m, err := library(t).OpenModel(path, ModelParams{Repack: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func openContext(t testing.TB, m *Model, p ContextParams) *Context {
	t.Helper()
	if p.Recipe == (wire.Recipe{}) {
		p.Recipe = recipe()
	}
	c, err := m.NewContext(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// openWhole gives logits wherever they are asked for.
func openWhole(t testing.TB, path string) *Context {
	return openContext(t, openModel(t, path), ContextParams{Role: Whole, Outputs: recipe().Chunk})
}

// plan writes a slice to a file of its own.
func plan(t testing.TB, f *gguf.File, man *gguf.Manifest, p *gguf.SlicePlan) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "slice.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := p.Write(t.Context(), out, f, man, nil); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// parts are the files of a model cut for so many stages.
type parts struct {
	table  Table
	scale  float32
	slices []string
	ranges []gguf.Range
}

// cut slices a model as nodes would.
func cut(t testing.TB, path string, stages int) parts {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := gguf.Open(path)
	must(err)
	t.Cleanup(func() { _ = f.Close() })
	m, err := gguf.Inspect(f)
	must(err)
	man, err := gguf.BuildManifest(t.Context(), f, nil)
	must(err)
	p := parts{table: tableOf(t, f), scale: m.EmbeddingScale}
	p.ranges, err = gguf.EvenSplit(m, stages)
	must(err)
	for _, r := range p.ranges {
		s, err := gguf.PlanSlice(f, m, r)
		must(err)
		p.slices = append(p.slices, plan(t, f, man, s))
	}
	return p
}

// tableOf finds the embedding in a file.
func tableOf(t testing.TB, f *gguf.File) Table {
	t.Helper()
	e, found := f.Tensor("token_embd.weight")
	if !found {
		t.Fatal("no embedding")
	}
	return Table{Source: f.Data(e), Type: uint32(e.Type), Width: int(e.Dims[0]), Rows: int(e.Dims[1])}
}

// decoder is a whole model or a chain of its stages.
type decoder interface {
	decode(cells []wire.Cell, ids []int32) error
	logits(i int) ([]float32, error)
	trim(slot, from int) error
}

// whole is the yardstick.
type whole struct{ *Context }

func (w whole) decode(cells []wire.Cell, ids []int32) error { return w.DecodeTokens(cells, ids) }
func (w whole) logits(i int) ([]float32, error)             { return w.Logits(i) }
func (w whole) trim(slot, from int) error                   { return w.Trim(slot, from) }

// chain runs the stages of a model one after another.
type chain struct {
	embedding *Embedding
	stages    []*Context
	rows      [][]float32 // into each stage, of the last decode
}

func openChain(t testing.TB, p parts, goFilter bool) *chain {
	t.Helper()
	e, err := library(t).OpenEmbedding(p.table, p.scale)
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{embedding: e, rows: make([][]float32, len(p.slices))}
	for i, path := range p.slices {
		params := ContextParams{Role: Middle, goFilter: goFilter}
		if i == len(p.slices)-1 {
			params.Role, params.Outputs = Last, recipe().Chunk
		}
		c.stages = append(c.stages, openContext(t, openModel(t, path), params))
	}
	return c
}

func (c *chain) decode(cells []wire.Cell, ids []int32) error {
	rows := make([]float32, len(ids)*c.embedding.table.Width)
	if err := c.embedding.Rows(ids, rows); err != nil {
		return err
	}
	for i, s := range c.stages {
		c.rows[i] = append(c.rows[i][:0], rows...)
		if err := s.DecodeRows(cells, rows); err != nil {
			return err
		}
		rows = s.Rows()
	}
	return nil
}

func (c *chain) logits(i int) ([]float32, error) { return c.stages[len(c.stages)-1].Logits(i) }

func (c *chain) trim(slot, from int) error {
	for _, s := range c.stages {
		if err := s.Trim(slot, from); err != nil {
			return err
		}
	}
	return nil
}

// run is n cells of a slot from a position; all or the last want logits.
func run(slot, from, n int, all bool) []wire.Cell {
	cells := make([]wire.Cell, n)
	for i := range cells {
		cells[i] = wire.Cell{Slot: slot, Position: from + i, Logits: all || i == n-1}
	}
	return cells
}

// all decodes cells that want logits and returns them, one row a cell.
func all(t testing.TB, d decoder, cells []wire.Cell, ids []int32) [][]float32 {
	t.Helper()
	if err := d.decode(cells, ids); err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for i, cell := range cells {
		if !cell.Logits {
			continue
		}
		l, err := d.logits(i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, append([]float32(nil), l...))
	}
	return rows
}

// sameBits compares two results bit by bit.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// tokens makes n token ids of a vocabulary, the same for the same seed.
func tokens(vocabulary, n int, seed uint64) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(uniform(seed, i) * float64(vocabulary))
	}
	return ids
}
