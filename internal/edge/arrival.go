package edge

import (
	"context"
	"errors"
	"sync"
	"time"

	"muster/internal/fault"
)

// Arrival is an expected stream.
type Arrival struct {
	table  *Table
	want   Expected
	taken  bool // a stream has been let in; under the table's lock
	stream chan Receiver
	ended  chan struct{}
	once   sync.Once
	disarm func() bool
}

// Wait returns the stream once it is there, which happens once. Faults:
// edge.stream_overdue where the deadline of ctx has passed first, run.interrupted
// where ctx or the arrival has otherwise ended.
func (a *Arrival) Wait(ctx context.Context) (Receiver, error) {
	start := time.Now()
	select {
	case r := <-a.stream:
		return r, a.live()
	case <-a.ended:
		return nil, a.live()
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		c := a.want.config()
		return nil, c.blame(c.fault(from, fault.EdgeStreamOverdue, "waited", time.Since(start).Round(time.Millisecond)))
	}
	return nil, fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
}

// live is a fault where the arrival has ended.
func (a *Arrival) live() error {
	select {
	case <-a.ended:
		return fault.New(fault.RunInterrupted, component)
	default:
		return nil
	}
}

// Close forgets the edge and ends its stream. It is called when nobody reads
// the stream any more; closing twice does nothing.
func (a *Arrival) Close() {
	a.disarm()
	a.end()
}

func (a *Arrival) end() {
	a.once.Do(func() {
		a.table.mu.Lock()
		defer a.table.mu.Unlock()
		delete(a.table.expected, a.want.Edge)
		close(a.ended)
	})
}
