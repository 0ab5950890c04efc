package worker

import (
	"context"
	"syscall"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Stop ends the process and waits for its end: it asks, then sends TERM to the
// group, then KILL, with Spec.Grace between. When ctx ends KILL comes at once.
// It may be called several times and after the process has ended by itself. It
// returns nil when the process is gone as asked or was gone before, the fault
// of a process that crashed while stopping, and worker.call_overdue for one
// that not even KILL ends.
func (w *Worker) Stop(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	default:
	}
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()

	began := time.Now()
	if !w.askToStop(ctx) && !w.signalToStop(ctx, syscall.SIGTERM) {
		w.group.kill()
		if !w.gone(dying) {
			return fault.New(fault.WorkerCallOverdue, w.spec.Name, "op", wire.OpStop, "waited", since(began))
		}
	}
	if w.exit != nil {
		return w.exit
	}
	return nil
}

// askToStop reports whether the process ended within the grace. A stopped one
// is not asked: it cannot hear.
func (w *Worker) askToStop(ctx context.Context) bool {
	if w.group.stoppedBy() != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, w.spec.Grace)
	defer cancel()
	_, _ = w.Call(ctx, wire.Request{Op: wire.OpStop}, nil) // its end is the answer that counts
	return w.goneBefore(ctx)
}

func (w *Worker) signalToStop(ctx context.Context, sig syscall.Signal) bool {
	ctx, cancel := context.WithTimeout(ctx, w.spec.Grace)
	defer cancel()
	w.group.signal(sig)
	w.group.resume()
	return w.goneBefore(ctx)
}

func (w *Worker) goneBefore(ctx context.Context) bool {
	select {
	case <-w.done:
		return true
	case <-ctx.Done():
		return false
	}
}
