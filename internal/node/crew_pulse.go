package node

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Bounds of a worker's pulse. A worker answers a ping also while it computes.
const (
	pulseEvery  = time.Second
	pulseWithin = 5 * time.Second
)

// pulse asks the worker for a sign of life until it has ended, and tells of one
// that lives and answers no more. One ping may be overdue because this process
// itself was paused; the second in a row is the worker's, and so is the first of
// one that a signal has stopped.
func (c *crew) pulse(n *node) {
	missed := 0
	for {
		select {
		case <-c.worker.Done():
			return
		case <-time.After(pulseEvery):
		}
		why := c.ping()
		if !errors.Is(why, fault.WorkerCallOverdue) && !errors.Is(why, fault.WorkerStopped) {
			missed = 0
			continue
		}
		if missed++; missed == 2 || errors.Is(why, fault.WorkerStopped) {
			n.tell(crewFaulted{crew: c, why: fault.From(why), gone: true})
			return
		}
	}
}

func (c *crew) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), pulseWithin)
	defer cancel()
	_, err := c.worker.Call(ctx, wire.Request{Op: wire.OpPing}, nil)
	return err
}
