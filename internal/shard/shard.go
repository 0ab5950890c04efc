// Package shard runs one contiguous range of layers: a record comes in, a batch
// is decoded, a record goes out.
//
//	tokens or rows -> Step: check slots -> trim, open -> decode -> end -> rows or answers
//
// One record in is one record out and one decode: records are neither merged
// nor split, so that the schedule of a chain is the order of its records and
// can be replayed on a whole model. Every stage follows the same marks in the
// same order, so all of them hold the same cells of every slot.
//
// The package knows neither rings nor llama.cpp: it is handed an Engine, and
// records through Source and Sink. A worker process owns one Shard and calls it
// from one goroutine.
package shard

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Engine decodes batches of one shard. Faults are typed; after one the caches
// of the touched slots are in doubt until they are trimmed.
type Engine interface {
	// DecodeTokens computes a batch of token ids (whole models only).
	DecodeTokens(cells []wire.Cell, ids []int32) error
	// DecodeRows computes a batch of hidden states, len(cells) x width floats.
	DecodeRows(cells []wire.Cell, rows []float32) error
	// Rows are the hidden states after the last layer of the last decode.
	Rows() []float32
	// Logits are those of cell i of the last decode, one a token.
	Logits(i int) ([]float32, error)
	// Trim forgets the cells of slot at positions from and above.
	Trim(slot, from int) error
}

// Embedder looks up the embedding rows of token ids: dst has len(ids) x width.
type Embedder interface {
	Rows(ids []int32, dst []float32) error
}

// Sampler draws tokens for one slot.
type Sampler interface {
	Accept(ids ...int32)
	Sample(logits []float32, position int) (wire.Answer, error)
	Rewind(history []int32)
	Close()
}

// Config is what a Shard is made of. Embed is set on the first stage of a
// split model, Sampler on the last stage and on whole models.
type Config struct {
	Name       string // component in faults
	First      bool   // takes token ids
	Last       bool   // samples
	Width      int    // floats a row
	Vocabulary int    // tokens; last stage only
	Recipe     wire.Recipe
	Engine     Engine
	Embed      Embedder
	Sampler    func(wire.Sampling) (Sampler, error)
}

type slot struct {
	generation uint32 // 0: never opened
	open       bool
	next       int     // position of the next token
	history    []int32 // last stage: prompt and sampled ids, by position
	sampler    Sampler // last stage
}

// Shard holds the slots of one range of layers.
type Shard struct {
	cfg   Config
	slots []slot
	cells []wire.Cell
	rows  []float32
	done  [3]atomic.Int64 // records, tokens, microseconds in the engine
}

// New makes a shard with all its slots closed.
func New(cfg Config) *Shard {
	return &Shard{cfg: cfg, slots: make([]slot, cfg.Recipe.Slots)}
}

// Limits bounds what a record of this shard's input may hold.
func (s *Shard) Limits() wire.Limits {
	return Limits(s.cfg.Recipe, s.cfg.Width, s.cfg.Vocabulary)
}

// Limits bounds every record of a chain with this recipe. Width is in floats,
// vocabulary in tokens; either may be 0 where no rows or logits are expected.
func Limits(r wire.Recipe, width, vocabulary int) wire.Limits {
	return wire.Limits{
		Items:      4 * r.Slots,
		Tokens:     r.Chunk,
		Width:      width,
		Extra:      1<<16 + 12*r.Context,
		Top:        MaxTop,
		Vocabulary: vocabulary,
	}
}

// MaxTop is the greatest number of alternatives with log-probabilities a token.
const MaxTop = 64

// Stats are the figures since the shard was made. It may be called from any
// goroutine.
func (s *Shard) Stats() wire.Stats {
	return wire.Stats{
		Records: uint64(s.done[0].Load()), Tokens: uint64(s.done[1].Load()), BusyMicros: s.done[2].Load(),
	}
}

// Step takes the record in and fills out. On a fault the run is over: nothing
// is in out, and every slot named by the record has been emptied.
func (s *Shard) Step(in, out *wire.Record) error {
	items, err := s.accept(in)
	if err == nil {
		err = s.decode(in)
	}
	if err == nil {
		err = s.answer(items, out)
	}
	if err != nil {
		s.empty(in)
		return err
	}
	out.ID, out.Sequence = in.ID, in.Sequence
	return nil
}

// accept checks the items against the slots, drops those of older generations,
// and opens and trims. The kept items lie where in had them.
func (s *Shard) accept(in *wire.Record) ([]wire.Item, error) {
	want := wire.KindRows
	if s.cfg.First {
		want = wire.KindTokens
	}
	if in.Kind != want {
		return nil, s.refuse("kind %d where %d belongs", in.Kind, want)
	}
	if in.Kind == wire.KindRows && in.Width != s.cfg.Width {
		return nil, fault.New(fault.StageRowsMismatch, s.cfg.Name, "got", in.Width, "want", s.cfg.Width)
	}
	s.dropStale(in)
	for i := range in.Items {
		if err := s.place(&in.Items[i]); err != nil {
			return nil, err
		}
	}
	return in.Items, nil
}

// dropStale removes the items, with their payload, whose slot has been opened
// again since they were sent.
func (s *Shard) dropStale(in *wire.Record) {
	kept, from, to := in.Items[:0], 0, 0
	for _, it := range in.Items {
		n := it.Count
		stale := int(it.Slot) < len(s.slots) && it.Generation < s.slots[it.Slot].generation
		if !stale {
			kept = append(kept, it)
			if from != to {
				s.move(in, to, from, n)
			}
			to += n
		}
		from += n
	}
	in.Items = kept
	if in.Kind == wire.KindTokens {
		in.Tokens = in.Tokens[:to]
	} else {
		in.Rows = in.Rows[:to*in.Width]
	}
}

func (s *Shard) move(in *wire.Record, to, from, n int) {
	if in.Kind == wire.KindTokens {
		copy(in.Tokens[to:to+n], in.Tokens[from:from+n])
		return
	}
	w := in.Width
	copy(in.Rows[to*w:(to+n)*w], in.Rows[from*w:(from+n)*w])
}

// place brings one item's slot to where the item wants it.
func (s *Shard) place(it *wire.Item) error {
	if int(it.Slot) >= len(s.slots) {
		return s.refuse("slot %d of %d", it.Slot, len(s.slots))
	}
	sl := &s.slots[it.Slot]
	switch {
	case it.Marks&wire.MarkOpen != 0:
		if err := s.open(sl, it); err != nil {
			return err
		}
	case !sl.open || it.Generation != sl.generation:
		return s.refuse("slot %d is not open in generation %d", it.Slot, it.Generation)
	}
	if it.Marks&wire.MarkTrim != 0 {
		if err := s.trim(sl, it); err != nil {
			return err
		}
	}
	if int(it.Position) != sl.next {
		return s.refuse("slot %d is at position %d, not %d", it.Slot, sl.next, it.Position)
	}
	if it.Marks&wire.MarkAnswer != 0 && it.Count == 0 {
		return s.refuse("slot %d asks for an answer to no token", it.Slot)
	}
	sl.next += it.Count
	return nil
}

func (s *Shard) open(sl *slot, it *wire.Item) error {
	if it.Generation == 0 || (sl.open && it.Generation == sl.generation) {
		return s.refuse("slot %d cannot be opened in generation %d", it.Slot, it.Generation)
	}
	if err := s.cfg.Engine.Trim(int(it.Slot), 0); err != nil {
		return err
	}
	s.release(sl)
	*sl = slot{generation: it.Generation, open: true}
	if !s.cfg.Last {
		return nil
	}
	var o wire.SlotOpen
	if err := json.Unmarshal(it.Extra, &o); err != nil {
		return s.refuse("slot %d opens with %v", it.Slot, err)
	}
	var err error
	if sl.sampler, err = s.cfg.Sampler(o.Sampling); err != nil {
		return err
	}
	sl.history = append(sl.history, o.Prompt...)
	sl.sampler.Accept(o.Prompt...)
	return nil
}

func (s *Shard) trim(sl *slot, it *wire.Item) error {
	at := int(it.Position)
	if at < 0 || at > sl.next {
		return s.refuse("slot %d at position %d cannot be trimmed to %d", it.Slot, sl.next, at)
	}
	if err := s.cfg.Engine.Trim(int(it.Slot), at); err != nil {
		return err
	}
	sl.next = at
	if sl.sampler != nil {
		// The token at position at was sampled from the cells before it, or
		// belongs to the prompt: it stays known, what came after goes.
		sl.history = sl.history[:min(len(sl.history), at+1)]
		sl.sampler.Rewind(sl.history)
	}
	return nil
}

func (s *Shard) release(sl *slot) {
	if sl.sampler != nil {
		sl.sampler.Close()
		sl.sampler = nil
	}
	sl.open, sl.history = false, nil
}

func (s *Shard) decode(in *wire.Record) error {
	s.cells = in.Cells(s.cells[:0])
	if len(s.cells) == 0 {
		return nil
	}
	if !s.cfg.Last {
		for i := range s.cells {
			s.cells[i].Logits = false // wanted of the last stage
		}
	}
	start := time.Now()
	var err error
	switch {
	case !s.cfg.First:
		err = s.cfg.Engine.DecodeRows(s.cells, in.Rows)
	case s.cfg.Embed == nil:
		err = s.cfg.Engine.DecodeTokens(s.cells, in.Tokens)
	default:
		s.rows = grow(s.rows, len(in.Tokens)*s.cfg.Width)
		if err = s.cfg.Embed.Rows(in.Tokens, s.rows); err == nil {
			err = s.cfg.Engine.DecodeRows(s.cells, s.rows)
		}
	}
	s.done[0].Add(1)
	s.done[1].Add(int64(len(s.cells)))
	s.done[2].Add(time.Since(start).Microseconds())
	return err
}

// answer fills out with what the next stage or the asker is to get, and closes
// the slots that end.
func (s *Shard) answer(items []wire.Item, out *wire.Record) error {
	*out = wire.Record{Items: append(out.Items[:0], items...), Answers: out.Answers[:0]}
	if s.cfg.Last {
		out.Kind = wire.KindAnswers
		if err := s.sample(items, out); err != nil {
			return err
		}
	} else {
		out.Kind, out.Width = wire.KindRows, s.cfg.Width
		if len(s.cells) > 0 {
			out.Rows = s.cfg.Engine.Rows()
		}
	}
	for _, it := range items {
		if it.Marks&wire.MarkEnd == 0 {
			continue
		}
		if err := s.cfg.Engine.Trim(int(it.Slot), 0); err != nil {
			return err
		}
		s.release(&s.slots[it.Slot])
	}
	return nil
}

func (s *Shard) sample(items []wire.Item, out *wire.Record) error {
	cell := -1
	for i, it := range items {
		cell += it.Count
		out.Items[i].Extra = nil
		if it.Marks&wire.MarkAnswer == 0 {
			continue
		}
		logits, err := s.cfg.Engine.Logits(cell)
		if err != nil {
			return err
		}
		sl := &s.slots[it.Slot]
		if len(sl.history) < sl.next {
			return s.refuse("slot %d has %d tokens at position %d", it.Slot, len(sl.history), sl.next)
		}
		a, err := sl.sampler.Sample(logits, sl.next)
		if err != nil {
			return err
		}
		sl.sampler.Accept(a.Token)
		sl.history = append(sl.history[:sl.next], a.Token)
		if it.Marks&wire.MarkLogits != 0 {
			a.Logits = append([]float32(nil), logits...)
		}
		out.Answers = append(out.Answers, a)
	}
	return nil
}

// empty forgets every slot that a failed record named: their cells are in
// doubt. The fault that is being reported matters more than a failing Trim.
func (s *Shard) empty(in *wire.Record) {
	for _, it := range in.Items {
		if int(it.Slot) < len(s.slots) {
			_ = s.cfg.Engine.Trim(int(it.Slot), 0)
			s.release(&s.slots[it.Slot])
		}
	}
}

// Close frees the samplers. The engine is its owner's to close.
func (s *Shard) Close() {
	for i := range s.slots {
		s.release(&s.slots[i])
	}
}

func (s *Shard) refuse(format string, args ...any) error {
	return fault.New(fault.StageRecordInvalid, s.cfg.Name, "what", fmt.Sprintf(format, args...))
}

func grow(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}
