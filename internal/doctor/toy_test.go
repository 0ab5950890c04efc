package doctor

import (
	"bytes"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/shard"
	"muster/internal/wire"
)

// toy is an engine whose one layer mixes each row with those before it in its
// slot, by their distance. Its numbers do not depend on the shape of batches.
// What is wrong with it is planted by its fields.
type toy struct {
	width, vocabulary int
	room              int // cells of all slots
	cells             map[int][]cell
	last              []wire.Cell
	rows              []float32
	runs              int // batches decoded

	gain      float32 // of column 1: a flipped scale where it is not 1
	head      bool    // the sign of the head flipped
	jitter    float32 // added to column 0, a little more with each batch
	nan       int     // from this position on column 0 is NaN; 0 never
	lonely    bool    // a single token does not see the cache
	shifted   bool    // a single token is taken for one position further
	deaf      bool    // what comes out does not depend on what goes in
	forgetful bool    // tokens see nothing before them
	keeps     bool    // a roll-back leaves its cells beside those that come
	stays     bool    // a roll-back leaves its cells in place of those that come
	mixed     bool    // slots see one another
	reach     int     // tokens at distances beyond see nothing older; 0 sees all
	refuses   bool    // NaN is refused, as the worker does
}

// cell is what the cache holds of a token.
type cell struct {
	position int
	row      []float32
}

func newToy() *toy {
	return &toy{width: 8, vocabulary: 11, room: 1 << 20, cells: map[int][]cell{}, gain: 1}
}

func (e *toy) DecodeTokens(cells []wire.Cell, ids []int32) error {
	rows := make([]float32, len(ids)*e.width)
	if err := e.Rows2(ids, rows); err != nil {
		return err
	}
	return e.DecodeRows(cells, rows)
}

// Rows2 is the embedding.
func (e *toy) Rows2(ids []int32, dst []float32) error {
	for i, id := range ids {
		for j := range e.width {
			dst[i*e.width+j] = float32(math.Sin(float64(1 + int(id)*e.width + j)))
		}
	}
	return nil
}

func (e *toy) DecodeRows(cells []wire.Cell, rows []float32) error {
	held := len(cells)
	for _, c := range e.cells {
		held += len(c)
	}
	if held > e.room {
		return fault.New(fault.StageContextFull, "toy", "context", e.room)
	}
	e.runs++
	e.rows, e.last = e.rows[:0], append(e.last[:0], cells...)
	for i, c := range cells {
		row := rows[i*e.width : (i+1)*e.width]
		e.put(c, row)
		out := e.layer(c, row, len(cells) == 1)
		if e.refuses && notFinite(out) > 0 {
			return fault.New(fault.StageRowsNotFinite, "toy", "row", c.Position, "slot", c.Slot, "value", "NaN", "where", "out", "column", 0)
		}
		e.rows = append(e.rows, out...)
	}
	return nil
}

// put keeps a row in the cache.
func (e *toy) put(c wire.Cell, row []float32) {
	if e.stays && slices.ContainsFunc(e.cells[c.Slot], func(old cell) bool { return old.position == c.Position }) {
		return
	}
	e.cells[c.Slot] = append(e.cells[c.Slot], cell{c.Position, slices.Clone(row)})
}

// layer is what comes of a row that has just been put into the cache.
func (e *toy) layer(c wire.Cell, self []float32, single bool) []float32 {
	out := make([]float32, e.width)
	for slot := range 8 {
		if slot == c.Slot || e.mixed {
			e.attend(out, e.cells[slot], c.Position, single)
		}
	}
	for j := range out {
		out[j] = self[j] + out[j]*float32(1+j%3)
	}
	out[1] *= e.gain
	out[0] += e.jitter * float32(e.runs)
	if e.deaf {
		clear(out)
		out[0] = 1
	}
	if e.nan > 0 && c.Position >= e.nan {
		out[0] = float32(math.NaN())
	}
	return out
}

// attend adds what the cells of a slot give to the token at a position.
func (e *toy) attend(out []float32, cells []cell, position int, single bool) {
	for _, k := range cells {
		distance := position - k.position
		switch {
		case distance < 0,
			distance > 0 && (e.forgetful || single && e.lonely),
			distance > 3 && e.reach > 0 && position > e.reach:
			continue
		case single && e.shifted && distance > 0:
			distance++
		}
		for j := range out {
			out[j] += k.row[(j+distance)%e.width] / float32(1+distance)
		}
	}
}

func (e *toy) Rows() []float32 { return e.rows }

func (e *toy) Logits(i int) ([]float32, error) {
	logits := make([]float32, e.vocabulary)
	for k := range logits {
		for j, x := range e.rows[i*e.width : (i+1)*e.width] {
			logits[k] += x * float32(math.Cos(float64(1+k*e.width+j)))
		}
	}
	if e.head {
		for k := range logits {
			logits[k] = -logits[k]
		}
	}
	return logits, nil
}

func (e *toy) Trim(slot, from int) error {
	if from == 0 || !e.keeps && !e.stays {
		e.cells[slot] = slices.DeleteFunc(e.cells[slot], func(c cell) bool { return c.position >= from })
	}
	return nil
}

type embedder struct{ *toy }

func (e embedder) Rows(ids []int32, dst []float32) error { return e.Rows2(ids, dst) }

type greedy struct{}

func (greedy) Accept(...int32) {}
func (greedy) Rewind([]int32)  {}
func (greedy) Close()          {}
func (greedy) Sample(logits []float32, _ int) (wire.Answer, error) {
	return wire.Answer{Token: int32(argmax(logits))}, nil
}

// patient is a real shard over a toy, reached by the bytes of records.
type patient struct {
	t        *testing.T
	toy      *toy
	shard    *shard.Shard
	resident func(held int) uint64
	step     func(ctx context.Context, n int) error // before the n-th step; nil does nothing
	steps    int
}

func (p *patient) Step(ctx context.Context, in *wire.Record) (*wire.Record, error) {
	if p.steps++; p.step != nil {
		if err := p.step(ctx, p.steps); err != nil {
			return nil, err
		}
	}
	var from, to, out wire.Record
	p.cross(in, &from)
	if err := p.shard.Step(&from, &to); err != nil {
		return nil, err
	}
	if len(to.Items) == 0 {
		p.t.Error("a record was dropped as one of an older generation")
	}
	p.cross(&to, &out)
	return &out, nil
}

// cross takes a record over the wire.
func (p *patient) cross(from, to *wire.Record) {
	p.t.Helper()
	b, err := from.Append(nil)
	if err == nil {
		err = wire.ReadRecord(bytes.NewReader(b), p.shard.Limits(), to)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *patient) Stats(context.Context) (wire.Stats, error) {
	held := 0
	for _, c := range p.toy.cells {
		held += len(c)
	}
	return wire.Stats{ResidentBytes: p.resident(held)}, nil
}

// role is a place in a chain.
type role struct{ first, last bool }

var roles = map[string]role{
	"first": {first: true}, "middle": {}, "last": {last: true}, "whole": {first: true, last: true},
}

// usual is the recipe of patients.
var usual = wire.Recipe{Context: 150, Slots: 3, Chunk: 32}

// admitted is a patient over e and the exam that fits it.
func admitted(t *testing.T, e *toy, r role, recipe wire.Recipe) (*patient, Exam) {
	cfg := shard.Config{
		Name: "toy", First: r.first, Last: r.last, Width: e.width, Vocabulary: e.vocabulary, Recipe: recipe, Engine: e,
		Sampler: func(wire.Sampling) (shard.Sampler, error) { return greedy{}, nil },
	}
	if r.first && !r.last {
		cfg.Embed = embedder{e}
	}
	p := &patient{t: t, toy: e, shard: shard.New(cfg), resident: func(held int) uint64 { return 1000 + uint64(held) }}
	return p, Exam{
		Name: "toy", First: r.first, Last: r.last, Layers: [2]int{2, 5}, Width: e.width, Vocabulary: e.vocabulary, Recipe: recipe,
		Verify:        func(context.Context) (int, error) { return 0, nil },
		MemoryPlanned: 1200, TokenTime: time.Millisecond, RowTime: time.Millisecond,
	}
}

// known is what a good toy makes of two prompts.
func known(t *testing.T, r role) *probe.Reference {
	t.Helper()
	p, exam := admitted(t, newToy(), r, usual)
	ref := &probe.Reference{
		Layers: exam.Layers, Width: exam.Width, Vocabulary: exam.Vocabulary,
		Tolerance: probe.Tolerance{Share: 1, Cosine: 0.9999, Relative: 0.001},
	}
	for name, n := range map[string]int{probe.Short: 16, probe.Long: 96} {
		in := exam.made(n, 11, 1)
		passage := probe.Passage{Prompt: probe.Prompt{Name: name, Tokens: in.ids}, In: in.rows}
		if !r.first {
			passage.Prompt.Tokens = make([]int32, n)
		}
		v := &visit{ctx: t.Context(), exam: &exam, patient: p}
		got, err := v.once(in)
		if err != nil {
			t.Fatal(err)
		}
		if r.last {
			passage.Logits = got
		} else {
			passage.Out = got
		}
		ref.Passages = append(ref.Passages, passage)
	}
	return ref
}
