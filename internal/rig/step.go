package rig

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

const (
	watchEvery  = 250 * time.Millisecond
	stepFloor   = 5 * time.Second // a step's deadline is this and
	stepFactor  = 20              // so many times its measured time
	late        = time.Second     // of a longer time between two looks no more counts: this process did not run
	causeWithin = 2 * time.Second // from a closed ring to its owner's death
)

// Step sends a record and returns what the worker makes of it: rows of a range
// that is not the last, answers of one that is. in is not kept, and the record
// returned is the caller's. A record whose items are all of an older generation
// than their slots gets no answer and must not be sent.
//
// Faults: what the worker says of the record, the fault of its end,
// worker.step_overdue, worker.stopped, and run.interrupted where ctx is
// cancelled. After any of them the rig is of no more use.
func (r *Rig) Step(ctx context.Context, in *wire.Record) (*wire.Record, error) {
	if err := context.Cause(r.life); err != nil {
		return nil, err
	}
	var err error
	if r.buf, err = in.Append(r.buf[:0]); err != nil {
		return nil, err // nothing was sent
	}
	within, release := r.within(ctx, in.TokenCount())
	out, err := r.pass(within)
	if err != nil {
		err = r.cause(within, err)
		r.fail(err)
	}
	release()
	return out, err
}

func (r *Rig) pass(ctx context.Context) (*wire.Record, error) {
	if err := r.feed.Write(ctx, r.buf); err != nil {
		return nil, err
	}
	r.feed.Commit()
	out := new(wire.Record)
	if err := wire.ReadRecord(r.drain.Reader(ctx), r.limits, out); err != nil {
		return nil, err
	}
	r.drain.Done()
	return out, nil
}

// within is ctx that also ends with the rig's life and when a step of so many
// tokens is overdue. release ends it, and returns when its watcher has.
func (r *Rig) within(ctx context.Context, tokens int) (within context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.watchStep(ctx, tokens, cancel)
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

func (r *Rig) watchStep(ctx context.Context, tokens int, end context.CancelCauseFunc) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var waited time.Duration
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.life.Done():
			end(context.Cause(r.life))
			return
		case now := <-tick.C:
			waited += min(now.Sub(last), late)
			last = now
		}
		if waited < stepFloor {
			continue
		}
		if f := r.worker.Stopped(waited); f != nil {
			end(f)
		} else if waited > stepFloor+stepFactor*r.measured(tokens) {
			end(fault.New(fault.WorkerStepOverdue, r.cfg.Name, "tokens", tokens, "waited", waited.Round(time.Millisecond)))
		}
	}
}

// measured is how long a batch of tokens takes, by the trial forwards of the
// loading.
func (r *Rig) measured(tokens int) time.Duration {
	each := r.loaded.TokenMicros
	if tokens > 1 && r.loaded.ChunkTokens > 0 {
		each = r.loaded.ChunkMicros / int64(r.loaded.ChunkTokens)
	}
	return time.Duration(each*int64(tokens)) * time.Microsecond
}

// watch takes the worker's own faults and its end.
func (r *Rig) watch() {
	for f := range r.worker.Faults() {
		r.fail(f)
	}
	<-r.worker.Done()
	if f := r.worker.Exit(); f != nil {
		r.fail(f)
	}
}

// cause is the fault to report for err: the rig's first one, where it has one
// or is about to, since a closed ring is seen before its owner's death is.
func (r *Rig) cause(ctx context.Context, err error) error {
	if errors.Is(err, fault.ArenaRingClosed) {
		select {
		case <-r.life.Done():
		case <-time.After(causeWithin):
		}
	}
	var f *fault.Fault
	switch {
	case errors.As(context.Cause(r.life), &f), errors.As(context.Cause(ctx), &f):
		return f
	case ctx.Err() != nil:
		return fault.New(fault.RunInterrupted, r.cfg.Name).Because(context.Cause(ctx))
	}
	return err
}
