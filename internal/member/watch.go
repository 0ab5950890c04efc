package member

import (
	"context"
	"net"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
)

// leastRest is the shortest time between two readings: a storm of gossip is
// read in one.
const leastRest = 5 * time.Millisecond

// watch reads the library's view whenever it may have changed, and tells what
// is new.
func (m *Member) watch() {
	poll := time.NewTicker(m.cfg.Profile.Poll)
	defer poll.Stop()
	for {
		took := m.look()
		// A large view takes long to read: at most a third of one processor
		// goes into it.
		rest := time.NewTimer(min(max(2*took, leastRest), m.cfg.Profile.Poll))
		select {
		case <-rest.C:
		case <-m.ctx.Done():
			rest.Stop()
			return
		}
		select {
		case <-m.wake:
		case <-poll.C:
		case <-m.ctx.Done():
			return
		}
	}
}

// look reads the view once.
func (m *Member) look() (took time.Duration) {
	began := time.Now()
	rows, err := m.readBack()
	now := time.Now()
	if m.ctx.Err() != nil {
		return 0
	}
	if err != nil {
		m.failed(err)
		return now.Sub(began)
	}
	m.mu.Lock()
	facts := m.table.take(rows, m.cfg.Self, now)
	m.unread = nil
	own := m.table.entries[m.cfg.Self]
	untold := own != nil && own.Epoch != m.meta.epoch && !m.left
	m.mu.Unlock()
	if untold {
		m.raise() // the change crossed a refutation, which won
	}
	for _, f := range facts {
		if f.State != f.Former {
			m.cfg.Tell(event.MemberStateChanged{
				Node: f.Node, Boot: f.Boot, State: f.State.String(), Former: f.Former.String(), Incarnation: f.Incarnation,
			})
		}
		m.cfg.Facts(f)
	}
	m.cfg.Read(now)
	return now.Sub(began)
}

// failed notes that the view could not be read, and tells of the first time in
// a row.
func (m *Member) failed(err error) {
	f := fault.New(fault.MemberViewUnreadable, component).Because(err)
	m.mu.Lock()
	first := m.unread == nil
	m.unread = f
	m.mu.Unlock()
	if first {
		m.cfg.Tell(event.MemberViewLost{Fault: f})
	}
}

// readBack asks the library for its whole table as a peer would.
func (m *Member) readBack() ([]row, error) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Profile.StreamTimeout)
	defer cancel()
	ours, theirs := net.Pipe()
	defer context.AfterFunc(ctx, func() { _ = ours.Close() })()
	defer ours.Close() //nolint:errcheck // a pipe's Close does not fail
	if !m.transport.offer(ctx, theirs) {
		return nil, context.Cause(ctx)
	}
	if err := ask(ours, m.cfg.Pool); err != nil {
		return nil, err
	}
	return answer(ours)
}
