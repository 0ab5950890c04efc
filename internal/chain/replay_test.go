package chain

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"muster/internal/infer"
	"muster/internal/wire"
)

// answered marks an item whose logits are wanted whole.
const answered = wire.MarkAnswer | wire.MarkLogits

// schedule is what a chain was asked, batch by batch: three slots that enter,
// go on and leave at different times, with prefill between decodes and one
// roll-back.
type schedule struct {
	t       *testing.T
	c       *Chain
	records []wire.Record
	logits  [][]float32
	next    [3]int32
	token   [3]int32
}

func (s *schedule) run(items []wire.Item, ids []int32) {
	s.t.Helper()
	r := wire.Record{ID: uint64(len(s.records) + 1), Sequence: uint64(len(s.records)), Kind: wire.KindTokens, Items: items, Tokens: ids}
	kept := r
	kept.Items, kept.Tokens = slices.Clone(items), slices.Clone(ids)
	s.records = append(s.records, kept)
	answers := exchange(s.t, s.c, &r)
	i := 0
	for _, it := range items {
		s.next[it.Slot] = it.Position + int32(it.Count)
		if it.Marks&wire.MarkAnswer != 0 {
			s.token[it.Slot] = answers[i].Token
			s.logits = append(s.logits, answers[i].Logits)
			i++
		}
	}
}

// exchange sends one record and reads its answers.
func exchange(t *testing.T, c *Chain, r *wire.Record) []wire.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := c.pipe.Load()
	if err := p.Send(ctx, r); err != nil {
		t.Fatal(c.cause(err))
	}
	var in wire.Record
	if err := p.Receive(ctx, &in); err != nil {
		t.Fatal(c.cause(err))
	}
	return slices.Clone(in.Answers)
}

func (s *schedule) open(slot uint16, prompt []int32, count int, marks wire.Mark) wire.Item {
	s.t.Helper()
	extra, err := json.Marshal(wire.SlotOpen{Sampling: infer.Greedy(), Prompt: prompt})
	if err != nil {
		s.t.Fatal(err)
	}
	return wire.Item{Slot: slot, Marks: wire.MarkOpen | marks, Generation: 1, Count: count, Extra: extra}
}

func (s *schedule) more(slot uint16, count int) wire.Item {
	return wire.Item{Slot: slot, Marks: answered, Generation: 1, Position: s.next[slot], Count: count}
}

// Three slots served together by three workers give, batch for batch, the very
// bits that one unsliced context gives when it is fed the same batches.
func TestThreeSlotsReplayBitForBit(t *testing.T) {
	cfg := config(t, tale(t), 3)
	cfg.Recipe.Slots = 3
	s := &schedule{t: t, c: start(t, cfg)}
	a, b, c := promptOf(t, s.c, 50), promptOf(t, s.c, 17), promptOf(t, s.c, 3)
	s.run([]wire.Item{s.open(0, a, 40, 0), s.open(1, b, 17, answered)}, append(slices.Clone(a[:40]), b...))
	s.run([]wire.Item{s.more(0, 10), s.more(1, 1)}, append(slices.Clone(a[40:]), s.token[1]))
	s.run([]wire.Item{s.more(1, 1), s.open(2, c, 3, answered), s.more(0, 1)}, append([]int32{s.token[1]}, append(slices.Clone(c), s.token[0])...))
	for range 12 {
		s.run([]wire.Item{s.more(2, 1), s.more(0, 1), s.more(1, 1)}, []int32{s.token[2], s.token[0], s.token[1]})
	}
	back := s.more(1, 1)
	back.Marks |= wire.MarkTrim
	back.Position -= 4
	s.run([]wire.Item{back, s.more(0, 1)}, []int32{s.token[1], s.token[0]})
	s.run([]wire.Item{{Slot: 0, Marks: wire.MarkEnd, Generation: 1, Position: s.next[0]}, s.more(1, 1)}, []int32{s.token[1]})

	whole := config(t, cfg.Model.Path, 1)
	whole.Whole, whole.Recipe.Slots = true, 3
	ref := start(t, whole)
	var logits [][]float32
	for i := range s.records {
		for _, a := range exchange(t, ref, &s.records[i]) {
			logits = append(logits, a.Logits)
		}
	}
	if len(logits) != len(s.logits) || len(logits) < 40 {
		t.Fatalf("%d rows of logits, the chain gave %d", len(logits), len(s.logits))
	}
	for i := range logits {
		if len(logits[i]) == 0 || !sameBits(logits[i], s.logits[i]) {
			t.Fatalf("row %d of %d differs", i, len(logits))
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
