package shard

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
)

// fakeEngine keeps, a slot, the positions that a real cache would hold, and
// refuses what llama.cpp would.
type fakeEngine struct {
	t     *testing.T
	width int
	cells map[int][]int // positions by slot
	rows  []float32
	last  []wire.Cell
	fail  error
}

func newFakeEngine(t *testing.T) *fakeEngine {
	return &fakeEngine{t: t, width: 2, cells: map[int][]int{}}
}

func (e *fakeEngine) decode(cells []wire.Cell) error {
	if e.fail != nil {
		return e.fail
	}
	for _, c := range cells {
		if want := len(e.cells[c.Slot]); c.Position != want {
			e.t.Errorf("slot %d decodes position %d, its cache ends at %d", c.Slot, c.Position, want)
		}
		e.cells[c.Slot] = append(e.cells[c.Slot], c.Position)
	}
	e.last = slices.Clone(cells)
	return nil
}

func (e *fakeEngine) DecodeTokens(cells []wire.Cell, ids []int32) error {
	if len(ids) != len(cells) {
		e.t.Errorf("%d ids for %d cells", len(ids), len(cells))
	}
	return e.decode(cells)
}

func (e *fakeEngine) DecodeRows(cells []wire.Cell, rows []float32) error {
	if len(rows) != len(cells)*e.width {
		e.t.Errorf("%d floats for %d cells", len(rows), len(cells))
	}
	e.rows = make([]float32, len(rows))
	for i, v := range rows {
		e.rows[i] = v + 1 // a layer that adds one
	}
	return e.decode(cells)
}

func (e *fakeEngine) Rows() []float32 { return e.rows }

func (e *fakeEngine) Logits(i int) ([]float32, error) {
	if !e.last[i].Logits {
		e.t.Errorf("logits of cell %d were not asked for", i)
	}
	return []float32{float32(e.last[i].Slot), float32(e.last[i].Position)}, nil
}

func (e *fakeEngine) Trim(slot, from int) error {
	e.cells[slot] = e.cells[slot][:min(from, len(e.cells[slot]))]
	return nil
}

type fakeEmbed struct{}

func (fakeEmbed) Rows(ids []int32, dst []float32) error {
	for i, id := range ids {
		dst[2*i], dst[2*i+1] = float32(id), -float32(id)
	}
	return nil
}

// fakeSampler answers 100 x its number of known tokens + the position.
type fakeSampler struct {
	known  []int32
	closed *int
}

func (s *fakeSampler) Accept(ids ...int32)    { s.known = append(s.known, ids...) }
func (s *fakeSampler) Rewind(history []int32) { s.known = slices.Clone(history) }
func (s *fakeSampler) Close()                 { *s.closed++ }
func (s *fakeSampler) Sample(_ []float32, position int) (wire.Answer, error) {
	return wire.Answer{Token: int32(100*len(s.known) + position)}, nil
}

func lastShard(e *fakeEngine, closed *int) *Shard {
	return New(Config{
		Name: "worker 2", Last: true, Width: 2, Vocabulary: 2,
		Recipe: wire.Recipe{Slots: 3, Chunk: 8, Context: 64}, Engine: e,
		Sampler: func(wire.Sampling) (Sampler, error) { return &fakeSampler{closed: closed}, nil },
	})
}

func opening(t *testing.T, prompt ...int32) []byte {
	t.Helper()
	b, err := json.Marshal(wire.SlotOpen{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rowsRecord(items ...wire.Item) *wire.Record {
	r := &wire.Record{Kind: wire.KindRows, Width: 2, Items: items}
	r.Rows = make([]float32, 2*r.TokenCount())
	for i := range r.Rows {
		r.Rows[i] = float32(i)
	}
	return r
}

func step(t *testing.T, s *Shard, in *wire.Record) *wire.Record {
	t.Helper()
	var out wire.Record
	if err := s.Step(in, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestFirstStageLooksUpAndPassesMarksOn(t *testing.T) {
	e := newFakeEngine(t)
	s := New(Config{
		Name: "worker 1", First: true, Width: 2, Recipe: wire.Recipe{Slots: 1, Chunk: 8, Context: 64},
		Engine: e, Embed: fakeEmbed{},
	})
	in := &wire.Record{ID: 7, Sequence: 3, Kind: wire.KindTokens, Tokens: []int32{5, 6}, Items: []wire.Item{
		{Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 1, Count: 2, Extra: []byte(`{"x":1}`)},
	}}
	out := step(t, s, in)
	if want := []float32{6, -4, 7, -5}; !slices.Equal(out.Rows, want) {
		t.Errorf("rows %v, want %v", out.Rows, want)
	}
	if out.ID != 7 || out.Sequence != 3 || out.Kind != wire.KindRows || out.Width != 2 {
		t.Errorf("header %+v", out)
	}
	if it := out.Items[0]; string(it.Extra) != `{"x":1}` || it.Marks != in.Items[0].Marks {
		t.Errorf("item %+v did not pass on", it)
	}
}

func TestLastStageAnswersWhatWasAsked(t *testing.T) {
	var closed int
	e := newFakeEngine(t)
	s := lastShard(e, &closed)
	out := step(t, s, rowsRecord(
		wire.Item{Slot: 0, Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 1, Count: 2, Extra: opening(t, 5, 6)},
		wire.Item{Slot: 2, Marks: wire.MarkOpen | wire.MarkAnswer | wire.MarkLogits, Generation: 4, Count: 1, Extra: opening(t, 5)},
	))
	if len(out.Answers) != 2 || out.Answers[0].Token != 202 || out.Answers[1].Token != 101 {
		t.Fatalf("answers %+v", out.Answers)
	}
	if out.Answers[0].Logits != nil || !slices.Equal(out.Answers[1].Logits, []float32{2, 0}) {
		t.Errorf("logits %v and %v", out.Answers[0].Logits, out.Answers[1].Logits)
	}
	out = step(t, s, rowsRecord(wire.Item{Slot: 0, Marks: wire.MarkAnswer, Generation: 1, Position: 2, Count: 1}))
	if out.Answers[0].Token != 303 {
		t.Errorf("the sampled token was not accepted: %+v", out.Answers)
	}
	out = step(t, s, rowsRecord(wire.Item{Slot: 0, Marks: wire.MarkEnd, Generation: 1, Position: 3}))
	if out.Items[0].Marks != wire.MarkEnd || len(out.Answers) != 0 || closed != 1 || len(e.cells[0]) != 0 {
		t.Errorf("end: %+v, %d samplers closed, cells %v", out.Items, closed, e.cells[0])
	}
}

// A doctor uses generation 1 and ends it; serving begins with generation 1.
func TestAnEndedSlotOpensAgainInItsGeneration(t *testing.T) {
	var closed int
	e := newFakeEngine(t)
	s := lastShard(e, &closed)
	first := func() int32 {
		return step(t, s, rowsRecord(wire.Item{Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 1, Count: 1, Extra: opening(t, 5)})).Answers[0].Token
	}
	before := first()
	step(t, s, rowsRecord(wire.Item{Marks: wire.MarkEnd, Generation: 1, Position: 1}))
	if again := first(); again != before || len(e.cells[0]) != 1 {
		t.Errorf("opened again it gives %d, before %d, with %d cells", again, before, len(e.cells[0]))
	}
}

func TestTrimRollsBackAndRepeats(t *testing.T) {
	var closed int
	e := newFakeEngine(t)
	s := lastShard(e, &closed)
	step(t, s, rowsRecord(wire.Item{Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 1, Count: 2, Extra: opening(t, 5, 6)}))
	next := func(at int32, marks wire.Mark) int32 {
		return step(t, s, rowsRecord(wire.Item{Marks: marks | wire.MarkAnswer, Generation: 1, Position: at, Count: 1})).Answers[0].Token
	}
	a, b := next(2, 0), next(3, 0)
	if again := next(2, wire.MarkTrim); again != a {
		t.Errorf("after the roll-back %d, before %d", again, a)
	}
	if again := next(3, 0); again != b {
		t.Errorf("one further %d, before %d", again, b)
	}
}

func TestStaleItemsAreDroppedWithTheirRows(t *testing.T) {
	var closed int
	e := newFakeEngine(t)
	s := lastShard(e, &closed)
	step(t, s, rowsRecord(wire.Item{Slot: 0, Marks: wire.MarkOpen, Generation: 2, Count: 1, Extra: opening(t, 1)}))
	step(t, s, rowsRecord(wire.Item{Slot: 1, Marks: wire.MarkOpen, Generation: 1, Count: 1, Extra: opening(t, 1)}))
	in := rowsRecord(
		wire.Item{Slot: 0, Generation: 1, Position: 9, Count: 2},
		wire.Item{Slot: 1, Generation: 1, Position: 1, Count: 1},
	)
	out := step(t, s, in)
	if len(out.Items) != 1 || out.Items[0].Slot != 1 {
		t.Fatalf("items %+v", out.Items)
	}
	if want := []float32{5, 6}; !slices.Equal(e.rows, want) { // rows 4 and 5 of the record, plus one
		t.Errorf("decoded %v, want %v", e.rows, want)
	}
}

func TestRefusals(t *testing.T) {
	open := func(t *testing.T) wire.Item {
		return wire.Item{Marks: wire.MarkOpen, Generation: 1, Count: 1, Extra: opening(t, 1)}
	}
	for name, bad := range map[string]func(t *testing.T) *wire.Record{
		"slot out of range": func(*testing.T) *wire.Record { return rowsRecord(wire.Item{Slot: 3, Generation: 1, Count: 1}) },
		"never opened":      func(*testing.T) *wire.Record { return rowsRecord(wire.Item{Slot: 1, Generation: 1, Count: 1}) },
		"newer generation":  func(*testing.T) *wire.Record { return rowsRecord(wire.Item{Generation: 2, Position: 1, Count: 1}) },
		"position gap":      func(*testing.T) *wire.Record { return rowsRecord(wire.Item{Generation: 1, Position: 2, Count: 1}) },
		"opened twice":      func(t *testing.T) *wire.Record { return rowsRecord(open(t)) },
		"generation 0":      func(*testing.T) *wire.Record { return rowsRecord(wire.Item{Slot: 1, Marks: wire.MarkOpen, Count: 1}) },
		"trim past the end": func(*testing.T) *wire.Record {
			return rowsRecord(wire.Item{Generation: 1, Marks: wire.MarkTrim, Position: 2})
		},
		"answer to no token": func(*testing.T) *wire.Record {
			return rowsRecord(wire.Item{Generation: 1, Marks: wire.MarkAnswer, Position: 1})
		},
		"opening not JSON": func(*testing.T) *wire.Record {
			return rowsRecord(wire.Item{Slot: 1, Marks: wire.MarkOpen, Generation: 1, Count: 1, Extra: []byte("{")})
		},
		"tokens in the middle": func(*testing.T) *wire.Record {
			return &wire.Record{Kind: wire.KindTokens, Tokens: []int32{1}, Items: []wire.Item{{Generation: 1, Position: 1, Count: 1}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var closed int
			e := newFakeEngine(t)
			s := lastShard(e, &closed)
			step(t, s, rowsRecord(open(t)))
			err := s.Step(bad(t), &wire.Record{})
			if !errors.Is(err, fault.StageRecordInvalid) {
				t.Fatalf("got %v", err)
			}
			if f := fault.From(err); f.Component != "worker 2" {
				t.Errorf("the fault names %q", f.Component)
			}
		})
	}
	t.Run("another width", func(t *testing.T) {
		var closed int
		s := lastShard(newFakeEngine(t), &closed)
		in := &wire.Record{Kind: wire.KindRows, Width: 3, Rows: make([]float32, 3), Items: []wire.Item{open(t)}}
		if err := s.Step(in, &wire.Record{}); !errors.Is(err, fault.StageRowsMismatch) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestAFailedDecodeEmptiesItsSlots(t *testing.T) {
	var closed int
	e := newFakeEngine(t)
	s := lastShard(e, &closed)
	step(t, s, rowsRecord(wire.Item{Marks: wire.MarkOpen, Generation: 1, Count: 2, Extra: opening(t, 5, 6)}))
	e.fail = fault.New(fault.StageDecodeFailed, "worker 2")
	err := s.Step(rowsRecord(wire.Item{Generation: 1, Position: 2, Count: 1}), &wire.Record{})
	if !errors.Is(err, fault.StageDecodeFailed) || len(e.cells[0]) != 0 || closed != 1 {
		t.Fatalf("got %v, cells %v, %d samplers closed", err, e.cells[0], closed)
	}
	e.fail = nil
	step(t, s, rowsRecord(wire.Item{Marks: wire.MarkOpen, Generation: 2, Count: 1, Extra: opening(t, 5)}))
}
