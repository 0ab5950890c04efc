package chain

import (
	"context"
	"errors"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/worker"
)

const (
	watchEvery  = 250 * time.Millisecond
	stepFloor   = 5 * time.Second // a step's deadline is this and
	stepFactor  = 20              // so many times its measured time
	late        = time.Second     // a tick later than this is the supervisor's own fault
	causeWithin = 2 * time.Second // from a closed ring to its owner's death
)

// watch follows every process: its own faults and its end.
func (c *Chain) watch() {
	for _, w := range c.workers() {
		c.watchers.Go(func() { c.watchWorker(w) })
	}
	c.watchers.Go(c.watchSteps)
}

func (c *Chain) watchWorker(w *worker.Worker) {
	select {
	case f, ok := <-w.Faults():
		if ok {
			c.fail(f)
			return
		}
		<-w.Done()
	case <-w.Done():
	}
	select {
	case <-c.stopping:
	default:
		if f := w.Exit(); f != nil {
			c.fail(f)
		}
	}
}

// watchSteps ends the run when a step is owed for longer than it may take.
func (c *Chain) watchSteps() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		if time.Since(last) > watchEvery+late {
			c.forgive()
		}
		last = time.Now()
		select {
		case <-c.stopping:
			return
		case <-c.failed:
			return
		case <-tick.C:
			if f := c.overdue(); f != nil {
				c.fail(f)
			}
		}
	}
}

// forgive lets the time that is owed begin anew: this process itself did not
// run, so it has not seen what may have come in the meantime.
func (c *Chain) forgive() {
	if p := c.pipe.Load(); p != nil {
		p.forgive()
	}
}

func (c *Chain) overdue() *fault.Fault {
	p := c.pipe.Load()
	if p == nil {
		return nil
	}
	waited, tokens := p.owed()
	if waited < stepFloor {
		return nil
	}
	st := c.owing()
	if f := st.worker.Stopped(waited); f != nil {
		return f
	}
	if waited < stepFloor+stepFactor*c.measured(tokens) {
		return nil
	}
	return fault.New(fault.WorkerStepOverdue, st.name, "tokens", tokens, "waited", waited.Round(time.Millisecond))
}

// owing is the last stage of the chain that has not served all that was put
// into its ring: those before it may just wait for room.
func (c *Chain) owing() *stage {
	for i := len(c.stages) - 1; i > 0; i-- {
		n := c.into[i].Lease().Counters()
		// A writer that is stopped between a record's last byte and its commit
		// leaves its reader ahead in records: the reader then owes nothing.
		if n.Written != n.Read || int64(n.RecordsWritten-n.RecordsRead) > 0 {
			return c.stages[i]
		}
	}
	return c.stages[0]
}

// measured is how long a batch of tokens takes through all stages, by the trial
// forwards of their loading.
func (c *Chain) measured(tokens int) time.Duration {
	var micros int64
	for _, st := range c.stages {
		l := st.loaded
		each := l.TokenMicros
		if tokens > 1 && l.ChunkTokens > 0 {
			each = l.ChunkMicros / int64(l.ChunkTokens)
		}
		micros += each * int64(tokens)
	}
	return time.Duration(micros) * time.Microsecond
}

// fail keeps the first fault as the cause of the chain's end.
func (c *Chain) fail(f *fault.Fault) {
	c.failOnce.Do(func() {
		c.fault = f
		close(c.failed)
		c.cfg.Tell(event.ChainFaulted{Fault: f})
	})
}

// cause is the fault to report for err: the chain's first one, where the chain
// has failed or is about to, since a closed ring is seen before its owner's
// death is.
func (c *Chain) cause(err error) error {
	if errors.Is(err, fault.ArenaRingClosed) {
		select {
		case <-c.failed:
		case <-time.After(causeWithin):
		}
	}
	select {
	case <-c.failed:
		return c.fault
	default:
	}
	if errors.Is(err, context.Canceled) {
		return fault.New(fault.RunInterrupted, "")
	}
	return err
}
