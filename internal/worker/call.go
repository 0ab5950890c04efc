package worker

import (
	"context"
	"errors"
	"os"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Call sends req, whose ID it sets, and waits for the answer. progress, which
// may be nil, is told in this goroutine how far the request is; of several
// reports only the latest may be seen. Any number of calls may be under way.
//
// A fault in the answer is returned as the error. Other faults:
// worker.call_overdue, or worker.stopped where the process is found stopped,
// at ctx's deadline; run.interrupted when ctx is cancelled; the fault of the
// process when that ends. A call given up leaves the worker as it is: its
// answer is dropped when it comes.
func (w *Worker) Call(ctx context.Context, req wire.Request, progress func(wire.Progress)) (wire.Reply, error) {
	began := time.Now()
	k, err := w.send(ctx, req, began)
	if err != nil {
		return wire.Reply{}, err
	}
	if progress == nil {
		progress = func(wire.Progress) {}
	}
	for {
		select {
		case p := <-k.progress:
			progress(p)
		case r := <-k.answer:
			return w.answered(k, r, progress)
		case <-k.over:
			select {
			case r := <-k.answer:
				return w.answered(k, r, progress)
			default:
				return wire.Reply{}, w.calls.fault
			}
		case <-ctx.Done():
			w.calls.leave(k)
			select {
			case r := <-k.answer:
				return w.answered(k, r, progress)
			default:
				return wire.Reply{}, w.givenUp(ctx, req.Op, began)
			}
		}
	}
}

func (w *Worker) answered(k *call, r wire.Reply, progress func(wire.Progress)) (wire.Reply, error) {
	select {
	case p := <-k.progress:
		progress(p)
	default:
	}
	if r.Fault != nil {
		return r, w.own(r.Fault)
	}
	return r, nil
}

// own puts this worker's name on a fault that names nobody.
func (w *Worker) own(f *fault.Fault) *fault.Fault {
	if f.Component == "" {
		f.Component = w.spec.Name
	}
	return f
}

// givenUp says why a call was not waited for any longer.
func (w *Worker) givenUp(ctx context.Context, op wire.Op, began time.Time) *fault.Fault {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.RunInterrupted, w.spec.Name).Because(context.Cause(ctx))
	}
	if f := w.Stopped(since(began)); f != nil {
		return f
	}
	return fault.New(fault.WorkerCallOverdue, w.spec.Name, "op", op, "waited", since(began))
}

// send writes req as the next line of stdin.
func (w *Worker) send(ctx context.Context, req wire.Request, began time.Time) (*call, error) {
	select {
	case w.pen <- struct{}{}:
		defer func() { <-w.pen }()
	case <-w.done:
	case <-ctx.Done():
		return nil, w.givenUp(ctx, req.Op, began)
	}
	k, err := w.calls.begin(req)
	if err != nil {
		return nil, err
	}
	line, err := wire.AppendLine(nil, k.req)
	if err != nil {
		w.calls.forget(k)
		return nil, w.own(fault.From(err))
	}
	n, err := w.write(ctx, line)
	switch {
	case err == nil:
		return k, nil
	case !errors.Is(err, os.ErrDeadlineExceeded):
		// The process has closed its stdin: it is ending, or it is broken.
		if !w.gone(dying) {
			w.condemn(fault.New(fault.WorkerProtocolBroken, w.spec.Name, "what", "it closed its stdin and lives").Because(err))
		}
		return k, nil
	}
	w.calls.forget(k)
	late := w.givenUp(ctx, req.Op, began)
	if n > 0 {
		w.condemn(late) // half a request: nothing sent after it would be understood
	}
	return nil, late
}

// write writes line, at most until ctx ends. The caller holds the pen.
func (w *Worker) write(ctx context.Context, line []byte) (int, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = w.pipes.stdin.SetWriteDeadline(time.Unix(1, 0))
		close(cut)
	})
	n, err := w.pipes.stdin.Write(line)
	if !stop() {
		<-cut
		_ = w.pipes.stdin.SetWriteDeadline(time.Time{})
	}
	return n, err
}
