package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/wire"
)

// visit is one examination under way.
type visit struct {
	ctx      context.Context
	exam     *Exam
	patient  Patient
	out      int // floats a row of what comes out
	sequence uint64

	checks   map[string]probe.Check
	singles  []float64  // how far texts fed token by token were from chunks
	broken   int        // numbers that came out and are not finite
	times    []stepTime // of every record with tokens
	holding  int        // tokens that the open slots hold now
	held     int        // tokens held together when memory was measured
	resident uint64     // bytes then, or concluded for the whole context
}

// stepTime is how long a record of so many tokens took.
type stepTime struct {
	tokens int
	took   time.Duration
}

// note keeps the figure of a check.
func (v *visit) note(name string, got, limit float64) {
	v.checks[name] = probe.Check{Name: name, Passed: probe.Within(name, got, limit), Got: got, Limit: limit}
}

func (v *visit) tell(part string) {
	if v.exam.Tell != nil {
		v.exam.Tell(part)
	}
}

// step has one record computed, whose tokens are those of t, and checks that
// what comes back belongs to it.
func (v *visit) step(items []wire.Item, t text) (*wire.Record, error) {
	in := &wire.Record{ID: v.sequence + 1, Sequence: v.sequence, Kind: wire.KindRows, Items: slices.Clone(items), Width: v.exam.Width, Rows: t.rows}
	if v.exam.First {
		in.Kind, in.Width, in.Rows, in.Tokens = wire.KindTokens, 0, nil, t.ids
	}
	v.sequence++
	within := v.within(t.len())
	ctx, cancel := context.WithTimeout(v.ctx, within)
	defer cancel()
	began := time.Now()
	out, err := v.patient.Step(ctx, in)
	took := time.Since(began)
	if err == nil {
		err = v.fits(out, items)
	}
	if err != nil {
		return nil, v.overdue(ctx, err, t.len(), took)
	}
	v.broken += notFinite(out.Rows)
	for _, a := range out.Answers {
		v.broken += notFinite(a.Logits)
	}
	if t.len() > 0 {
		v.times = append(v.times, stepTime{t.len(), took})
	}
	return out, nil
}

// overdue is err, or that a record was not answered in time where err is of
// that: the deadline here, or one of the patient's own.
func (v *visit) overdue(ctx context.Context, err error, tokens int, waited time.Duration) error {
	late := v.ctx.Err() == nil && ctx.Err() != nil
	for _, code := range []fault.Code{fault.WorkerStopped, fault.WorkerStepOverdue, fault.WorkerCallOverdue} {
		late = late || errors.Is(err, code)
	}
	if !late {
		return err
	}
	return fault.New(fault.DoctorStepOverdue, v.exam.Name, "tokens", tokens, "waited", waited.Round(time.Millisecond)).Because(err)
}

// Deadlines of a record: patience, and so many times what its tokens take by the
// load's measure or by the slowest record before. Nothing is known of the first
// record where the load has measured nothing.
const (
	slack   = 20
	unknown = time.Minute
)

// within is how long a record of n tokens may take.
func (v *visit) within(n int) time.Duration {
	token, row := v.exam.TokenTime, v.exam.RowTime
	for _, t := range v.times {
		if t.tokens == 1 {
			token = max(token, t.took)
		} else {
			row = max(row, t.took/time.Duration(t.tokens))
		}
	}
	if row == 0 {
		row = token
	}
	within := v.exam.Patience
	if within == 0 {
		within = patience
	}
	switch {
	case n > 1 && row > 0:
		within += slack * row * time.Duration(n)
	case n == 1 && token > 0:
		within += slack * token
	case n > 0:
		within += unknown
	}
	return within
}

// fits refuses what is no answer to the items.
func (v *visit) fits(out *wire.Record, items []wire.Item) error {
	tokens, answers := 0, 0
	for _, it := range items {
		tokens += it.Count
		if it.Marks&wire.MarkAnswer != 0 {
			answers++
		}
	}
	kind, rows := wire.KindRows, tokens*v.exam.Width
	if v.exam.Last {
		kind, rows = wire.KindAnswers, 0
	} else {
		answers = 0
	}
	if out == nil || out.Kind != kind || len(out.Items) != len(items) || len(out.Rows) != rows || len(out.Answers) != answers {
		return v.misfit("it is of another kind or size than was asked for")
	}
	for i, it := range items {
		if o := out.Items[i]; o.Slot != it.Slot || o.Generation != it.Generation || o.Position != it.Position || o.Count != it.Count {
			return v.misfit("its item %d is that of slot %d at %d, not of slot %d at %d", i, o.Slot, o.Position, it.Slot, it.Position)
		}
	}
	for _, a := range out.Answers {
		if len(a.Logits) != v.exam.Vocabulary {
			return v.misfit("it has %d logits of %d", len(a.Logits), v.exam.Vocabulary)
		}
	}
	return nil
}

func (v *visit) misfit(format string, args ...any) error {
	return fault.New(fault.StageRecordInvalid, v.exam.Name, "what", fmt.Sprintf(format, args...))
}

// verdict puts together what was found, where err ended the forward, and
// returns an error for what is not the shard's doing.
func (v *visit) verdict(err error) (Findings, error) {
	f := Findings{Name: v.exam.Name, Layers: v.exam.Layers, Referenced: v.exam.Reference != nil, Context: v.exam.Recipe.Context}
	f.Held, f.ResidentBytes = v.held, v.resident
	f.DecodeMicros, f.PrefillMicros = v.checks[probe.Decode].Got, v.checks[probe.Prefill].Got
	ended := ""
	switch {
	case err == nil:
		v.note(probe.Finite, float64(v.broken), 0)
	case v.ctx.Err() != nil:
		return f, fault.New(fault.RunInterrupted, v.exam.Name).Because(context.Cause(v.ctx))
	case errors.Is(err, fault.StageRowsNotFinite):
		ended = probe.Finite
		v.note(ended, float64(v.broken+1), 0)
	case errors.Is(err, fault.StageContextFull):
		ended = probe.Full
		v.note(ended, float64(v.holding), float64(v.exam.Recipe.Context))
	default:
		f.Fault = v.diagnose(err)
	}
	if ended != "" {
		f.Fault = f.failedBy(v.checks[ended]).Because(err)
	}
	for _, name := range probe.Names() {
		if c, made := v.checks[name]; made {
			f.Checks = append(f.Checks, c)
		}
	}
	return f, nil
}

// diagnose is the fault of a forward that err has ended.
func (v *visit) diagnose(err error) *fault.Fault {
	is := func(code fault.Code) bool { return errors.Is(err, code) }
	switch {
	case is(fault.DoctorStepOverdue), is(fault.DoctorSliceUnreadable), is(fault.DoctorCacheMismatched):
		return fault.From(err)
	case is(fault.WorkerExited), is(fault.WorkerKilled), is(fault.ArenaRingClosed):
		return fault.New(fault.DoctorWorkerLost, v.exam.Name).Because(err)
	}
	return fault.New(fault.DoctorForwardBroken, v.exam.Name).Because(err)
}
