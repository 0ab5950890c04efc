package node

import (
	"strings"
	"time"

	"muster/internal/core/stage"
	"muster/internal/fault"
)

// How often a stage looks after its worker, and for how long one that is
// stopped by a signal may owe a step: less than the orchestrator waits, which
// cannot see why a step does not come.
const (
	watchEvery    = 250 * time.Millisecond
	stoppedWithin = 2 * time.Second
)

// watchWorker ends the stage when its worker owes a step and is stopped by a
// signal: it lives, so nothing else tells.
func (n *node) watchWorker(w *work) (stage.Event, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	since, given := time.Now(), uint64(0)
	for {
		select {
		case <-w.ctx.Done():
			return nil, nil
		case <-tick.C:
		}
		if out := w.outMeter.Read().Records; out != given || !w.owes() {
			since, given = time.Now(), out
			continue
		}
		if waited := time.Since(since); waited >= stoppedWithin {
			if f := w.crew.stopped(waited); f != nil {
				return nil, f
			}
		}
	}
}

// owes reports whether the worker has given out less than came in.
func (w *work) owes() bool {
	return w.crew.owes() || w.inMeter.Read().Records > w.outMeter.Read().Records
}

// stopped is the fault of a worker that is stopped by a signal, nil of others.
func (c *crew) stopped(waited time.Duration) error {
	signal, is := strings.CutPrefix(c.worker.State(), "stopped by ")
	if !is {
		return nil
	}
	return fault.New(fault.WorkerStopped, workerName, "signal", signal, "pid", c.worker.PID(), "waited", waited.Round(time.Millisecond))
}
