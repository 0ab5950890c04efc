package doctor

import (
	"context"
	"slices"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
)

// Lengths of the texts, in tokens. Token by token is the slowest way, so few
// are fed so.
const (
	shortTokens = 16 // of the doctor's own text
	mostTokens  = 32 // of a reference's prompt that is fed again token by token
	longTokens  = 64 // by which the doctor's own long text is longer than a chunk
	tailTokens  = 4  // at the end of a long text, fed again token by token
)

// contextShare is how far a token alone may be from the same one in a chunk, as
// a part of what another first half of a text does to the second. Kernels for
// one token and for many round differently, most of all for weights of a few
// bits; a cache or a position gone wrong does as much as another text would.
const contextShare = 0.25

// leastStepwise is the least that is allowed then, whatever another text does:
// twice what kernels for single precision were measured apart.
const leastStepwise = 0.005

// Examine examines a shard. What it found says whether the shard passed
// (Findings.Failed); an error is of what is not the shard's doing: ctx has ended
// (run.interrupted), or the exam cannot be (doctor.exam_invalid). After a
// Findings.Fault, and after an error, the shard is not as it was.
func Examine(ctx context.Context, p Patient, e Exam) (Findings, error) {
	if f := e.unsound(); f != nil {
		return Findings{}, f
	}
	began := time.Now()
	v := &visit{ctx: ctx, exam: &e, patient: p, out: e.Width, checks: map[string]probe.Check{}}
	if e.Last {
		v.out = e.Vocabulary
	}
	f, err := v.verdict(v.run())
	f.TookMicros = time.Since(began).Microseconds()
	return f, err
}

// run makes the checks, in an order in which each builds on those before.
func (v *visit) run() error {
	v.tell("slice")
	if err := v.slice(); err != nil {
		return err
	}
	if err := v.cache(); err != nil {
		return err
	}
	if err := v.passages(); err != nil {
		return err
	}
	t := v.text()
	first, effect, err := v.again(t)
	if err != nil {
		return err
	}
	if err := v.alone(t, first); err != nil {
		return err
	}
	v.stepwise(effect)
	if err := v.fill(); err != nil {
		return err
	}
	v.speed()
	return nil
}

func (v *visit) slice() error {
	differing, err := v.exam.Verify(v.ctx)
	if err != nil {
		return fault.New(fault.DoctorSliceUnreadable, v.exam.Name).Because(err)
	}
	v.note(probe.Slice, float64(differing), 0)
	return nil
}

// aboutCell bounds what the engine notes of a cell beside its keys and values:
// 12 bytes were measured, 24 where it has a second cache.
const aboutCell = 64

// cache compares what a token takes in the worker's KV cache with the recipe's
// KV type: the numbers of a coarser cache are within what another machine may
// be apart, and those of a finer one may be the same.
func (v *visit) cache() error {
	e := v.exam
	const block = 32 // values, of which the bytes are given
	want := e.CellValues * map[string]uint64{"f32": 128, "f16": 64, "bf16": 64, "q8_0": 34}[e.Recipe.KVType] / block
	if want == 0 || e.CellBytes == 0 || e.CellBytes >= want && e.CellBytes <= want+aboutCell {
		return nil
	}
	return fault.New(fault.DoctorCacheMismatched, e.Name, "got", e.CellBytes, "want", want, "type", e.Recipe.KVType)
}

// passages feeds what the reference has, or a long text of the doctor's own.
func (v *visit) passages() error {
	ref := v.exam.Reference
	if ref == nil {
		v.tell("long text")
		n := min(v.exam.Recipe.Room(), v.exam.Recipe.Chunk+longTokens)
		_, err := v.passage(v.exam.made(n, 1, 1))
		return err
	}
	far, tops := probe.None(), 0
	for _, p := range ref.Passages {
		if len(p.Prompt.Tokens) > v.exam.Recipe.Room() {
			continue
		}
		v.tell("reference, " + p.Prompt.Name + " prompt")
		got, err := v.passage(v.exam.input(p))
		if err != nil {
			return err
		}
		want := p.Out
		if v.exam.Last {
			want = p.Logits
			if topDiffers(got, want, ref.Tolerance.Relative) {
				tops++
			}
		}
		far = far.Worse(differ(got, want, v.out, ref.Tolerance.Share))
	}
	v.note(probe.Cosine, far.Cosine, ref.Tolerance.Cosine)
	v.note(probe.Relative, far.Relative, ref.Tolerance.Relative)
	if v.exam.Last {
		v.note(probe.TopToken, float64(tops), 0)
	}
	return nil
}

// passage feeds a text in chunks, and its last tokens once more, one by one.
func (v *visit) passage(t text) (rows []float32, err error) {
	s, err := v.seat(0, t.len())
	if err != nil {
		return nil, err
	}
	if rows, err = s.chunks(t); err != nil {
		return nil, err
	}
	from := max(0, t.len()-tailTokens)
	s.back(from)
	single, err := s.singly(t.cut(from, t.len()))
	if err != nil {
		return nil, err
	}
	v.compare(single, rows)
	return rows, s.end()
}

// text is what the shard is checked against itself with: the beginning of the
// reference's first prompt that fits, so that rows are as they are in use, or
// else the doctor's own.
func (v *visit) text() text {
	room := min(v.exam.Recipe.Room(), v.exam.Recipe.Context/2) // a neighbour must fit beside it
	if ref := v.exam.Reference; ref != nil {
		for _, p := range ref.Passages {
			if t := v.exam.input(p); t.len() >= min(room, shortTokens) {
				return t.cut(0, min(t.len(), room, mostTokens))
			}
		}
	}
	return v.exam.made(min(shortTokens, room), 2, 1)
}

// again feeds the text twice, and changed in its first half and in its last
// token. It returns what came of the text, and how much another first half
// does to the second.
func (v *visit) again(t text) (first []float32, effect float64, err error) {
	v.tell("the same again, and other text")
	half := t.len() / 2
	var got [4][]float32
	for i, in := range []text{
		t, t,
		t.with(0, v.exam.other(t.cut(0, half), 3)),
		t.with(t.len()-1, v.exam.other(t.cut(t.len()-1, t.len()), 4)),
	} {
		if got[i], err = v.once(in); err != nil {
			return nil, 0, err
		}
	}
	first = got[0]
	v.note(probe.Repeat, relative(got[1], first, v.out), 0)
	behind := t.len() - half
	effect = relative(tail(got[2], behind, v.out), tail(first, behind, v.out), v.out)
	last := relative(tail(got[3], 1, v.out), tail(first, 1, v.out), v.out)
	v.note(probe.Sensitive, min(effect, last), 0)
	return first, effect, nil
}

// alone feeds the text token by token, beside a neighbour in another slot where
// the recipe has one, then rolls its second half back, feeds another, rolls
// back again and repeats. chunked is what came of the text in chunks.
func (v *visit) alone(t text, chunked []float32) error {
	v.tell("token by token, and rolled back")
	half := t.len() / 2
	second := t.cut(half, t.len())
	other := v.exam.other(second, 6)
	otherwise, err := v.once(t.with(half, other)) // in chunks, for the roll-back to be held against
	if err != nil {
		return err
	}
	neighbour, err := v.neighbour(t.cut(0, half))
	if err != nil {
		return err
	}
	s, err := v.seat(0, t.len())
	if err != nil {
		return err
	}
	var got [3][]float32
	for i, in := range []text{t, other, second} {
		if i > 0 {
			s.back(half)
		}
		if got[i], err = s.singly(in); err != nil {
			return err
		}
	}
	v.note(probe.Rollback, relative(got[2], tail(got[0], second.len(), v.out), v.out), 0)
	for _, in := range []*seat{s, neighbour} {
		if err := in.end(); err != nil {
			return err
		}
	}
	v.compare(got[0], chunked)
	v.compare(got[1], otherwise)
	return nil
}

// compare keeps how far single tokens are from what came of chunks, over the
// last rows that both have.
func (v *visit) compare(single, chunked []float32) {
	share := 1.0
	if v.exam.Experts {
		share = expertsShare
	}
	rows := min(len(single), len(chunked)) / v.out
	v.singles = append(v.singles, differ(tail(single, rows, v.out), tail(chunked, rows, v.out), v.out, share).Relative)
}

// expertsShare is the share of rows of a mixture of experts that are held to
// what single tokens may be apart: rounding throws a row to another expert now
// and then. What is wrong with a cache is wrong in every row.
const expertsShare = 0.5

// stepwise judges single tokens by what another text does.
func (v *visit) stepwise(effect float64) {
	tolerance := max(leastStepwise, contextShare*effect)
	if ref := v.exam.Reference; ref != nil {
		tolerance = max(tolerance, ref.Tolerance.Relative)
	}
	got := slices.Max(v.singles)
	if v.exam.Experts && v.exam.Last { // a text has one row of logits, which may be one that was thrown
		got = slices.Sorted(slices.Values(v.singles))[(len(v.singles)-1)/2]
	}
	v.note(probe.Stepwise, got, tolerance)
}

// neighbour feeds another text than t into the last slot, where that is not the
// only one.
func (v *visit) neighbour(t text) (*seat, error) {
	s, err := v.seat(v.exam.Recipe.Slots-1, t.len())
	if err == nil && s.slot > 0 {
		_, err = s.chunks(v.exam.other(t, 5))
	}
	return s, err
}
