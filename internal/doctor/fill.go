package doctor

import (
	"context"
	"math"
	"time"

	"muster/internal/core/probe"
	"muster/internal/wire"
)

// fill fills all slots together to the whole context, in whole chunks and the
// last token of each slot in one batch, and measures memory. Where that would
// last longer than FillWithin it stops, after two chunks and leastFill tokens at
// least: the KV cache was written when it was made, and what computing takes
// grows evenly with the cells that are held, if at all, so that the memory of
// the whole context follows from the growth until then.
func (v *visit) fill() error {
	v.tell("full context")
	f, err := v.filling()
	if err != nil {
		return err
	}
	within := v.exam.FillWithin
	if within == 0 {
		within = fillWithin
	}
	began := time.Now()
	var first memory // after the first whole chunk
	for n := 0; !f.whole() && (n < 2 || v.holding < leastFill || time.Since(began) < within); n++ {
		if err := f.chunk(); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if first, err = v.measure(); err != nil {
			return err
		}
	}
	want := v.holding + len(f.seats)
	chunks, err := v.measure()
	if err != nil {
		return err
	}
	if err := f.together(); err != nil {
		return err
	}
	last, err := v.measure()
	if err != nil {
		return err
	}
	v.held, v.resident = last.held, last.resident
	if want < v.exam.Recipe.Context {
		v.resident = max(v.resident, first.concluded(chunks, v.exam.Recipe.Context))
	}
	v.note(probe.Full, float64(v.held), float64(want))
	planned := v.exam.MemoryPlanned
	if planned == 0 {
		planned = v.resident // nothing was told: it is held against itself
	}
	v.note(probe.Memory, float64(v.resident), float64(planned))
	return f.end()
}

// The engine computes with cells in groups, so that memory grows by groups: a
// conclusion needs some of them.
const (
	group     = 256
	leastFill = 3 * group
)

// filling is all slots on their way to the whole context.
type filling struct {
	v     *visit
	seats []*seat
	left  []int // tokens of each seat before its last
	block text  // a chunk of tokens, the same for every record
}

// filling takes every slot for its share of the context.
func (v *visit) filling() (*filling, error) {
	r := v.exam.Recipe
	f := &filling{v: v, block: v.exam.made(r.Chunk, 7, 1)}
	for i := range r.Slots {
		share := r.Context / r.Slots
		if i < r.Context%r.Slots {
			share++
		}
		s, err := v.seat(i, share)
		if err != nil {
			return nil, err
		}
		f.seats, f.left = append(f.seats, s), append(f.left, share-1)
	}
	return f, nil
}

// whole reports whether every slot lacks its last token alone.
func (f *filling) whole() bool {
	for _, n := range f.left {
		if n > 0 {
			return false
		}
	}
	return true
}

// seatsAtOnce is how many slots a record may be of.
func (f *filling) seatsAtOnce() int {
	if f.v.exam.Recipe.Deterministic {
		return 1
	}
	return f.v.exam.Recipe.Chunk
}

// chunk feeds a record of as many tokens as a chunk takes, of one slot after
// the other.
func (f *filling) chunk() error {
	room := f.v.exam.Recipe.Chunk
	counts, seats := make([]int, len(f.seats)), f.seatsAtOnce()
	for i := range f.seats {
		if f.left[i] == 0 || seats == 0 {
			continue
		}
		seats--
		counts[i] = min(f.left[i], room)
		f.left[i] -= counts[i]
		room -= counts[i]
	}
	return f.record(f.seats, counts, false)
}

// together feeds the last token of every slot, as many slots in a record as it
// may be of.
func (f *filling) together() error {
	most := f.seatsAtOnce()
	for at := 0; at < len(f.seats); at += most {
		seats := f.seats[at:min(at+most, len(f.seats))]
		ones := make([]int, len(seats))
		for i := range ones {
			ones[i] = 1
		}
		if err := f.record(seats, ones, true); err != nil {
			return err
		}
	}
	return nil
}

// record feeds so many tokens of each seat in one record.
func (f *filling) record(seats []*seat, counts []int, answer bool) error {
	var items []wire.Item
	total := 0
	for i, s := range seats {
		if counts[i] > 0 {
			items = append(items, s.item(counts[i], answer))
			total += counts[i]
		}
	}
	if _, err := f.v.step(items, f.block.cut(0, total)); err != nil {
		return err
	}
	for i, s := range seats {
		if counts[i] > 0 {
			s.took(counts[i])
		}
	}
	return nil
}

func (f *filling) end() error {
	for _, s := range f.seats {
		if err := s.end(); err != nil {
			return err
		}
	}
	return nil
}

// memory is what the worker had with so many tokens held.
type memory struct {
	held     int
	resident uint64 // bytes
}

func (v *visit) measure() (memory, error) {
	ctx, cancel := context.WithTimeout(v.ctx, v.within(0))
	defer cancel()
	began := time.Now()
	s, err := v.patient.Stats(ctx)
	if err != nil {
		return memory{}, v.overdue(ctx, err, 0, time.Since(began))
	}
	return memory{held: v.holding, resident: s.ResidentBytes}, nil
}

// concluded is the memory with a whole context, by the growth from m to last.
func (m memory) concluded(last memory, whole int) uint64 {
	groups := func(held int) float64 { return math.Ceil(float64(held) / group) }
	if last.resident <= m.resident || groups(last.held) <= groups(m.held) {
		return last.resident
	}
	each := float64(last.resident-m.resident) / (groups(last.held) - groups(m.held))
	return last.resident + uint64(each*(groups(whole)-groups(last.held)))
}

// speed notes the median time of a single token, and of a token of the largest
// records.
func (v *visit) speed() {
	var decode, prefill []float64
	most := 0
	for _, t := range v.times {
		most = max(most, t.tokens)
	}
	for _, t := range v.times {
		each := float64(t.took.Nanoseconds()) / 1e3 / float64(t.tokens)
		if t.tokens == 1 {
			decode = append(decode, each)
		}
		if t.tokens == most {
			prefill = append(prefill, each)
		}
	}
	v.note(probe.Decode, median(decode), 0)
	v.note(probe.Prefill, median(prefill), 0)
}
