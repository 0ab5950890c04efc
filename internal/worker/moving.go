package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Bounds of a load.
const (
	lookEvery   = 250 * time.Millisecond
	stillFloor  = 5 * time.Second  // no progress for less is not looked into
	stallWithin = 60 * time.Second // no progress for so long ends the call
)

// CallMoving is Call for a load, which may last as long as its progress moves
// and its process is not stopped. Further faults: worker.load_overdue,
// worker.stopped.
func (w *Worker) CallMoving(ctx context.Context, req wire.Request, progress func(wire.Progress)) (wire.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	var moved atomic.Int64
	began := time.Now()
	go func() {
		defer close(watched)
		w.watchCall(ctx, func() time.Duration { return time.Since(began) - time.Duration(moved.Load()) }, cancel)
	}()
	reply, err := w.Call(ctx, req, func(p wire.Progress) {
		moved.Store(int64(time.Since(began)))
		progress(p)
	})
	why := context.Cause(ctx)
	cancel(nil)
	<-watched
	var f *fault.Fault
	if err != nil && errors.As(why, &f) {
		return reply, f
	}
	return reply, err
}

// watchCall ends a call whose process is stopped or whose progress stands
// still; still says for how long it has.
func (w *Worker) watchCall(ctx context.Context, still func() time.Duration, end context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waited := still()
		if waited < stillFloor {
			continue
		}
		if f := w.Stopped(waited); f != nil {
			end(f)
		} else if waited > stallWithin {
			end(fault.New(fault.WorkerLoadOverdue, w.spec.Name, "waited", stallWithin))
		}
	}
}

// Stopped is the fault of a worker that a signal has stopped and that was
// waited for so long; nil of any other.
func (w *Worker) Stopped(waited time.Duration) *fault.Fault {
	signal, is := strings.CutPrefix(w.State(), "stopped by ")
	if !is {
		return nil
	}
	return fault.New(fault.WorkerStopped, w.spec.Name, "signal", signal, "waited", waited.Round(time.Millisecond), "pid", w.PID())
}
