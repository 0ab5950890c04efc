package member

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"muster/internal/fault"
	"muster/internal/id"
)

const (
	// atOnce is how many peers are dialled at once, by Join and by the re-join.
	atOnce = 4
	// farewell bounds how long Leave waits until others have been told.
	farewell = 5 * time.Second
)

// Join contacts the seeds, exchanges views with them, and returns at the first
// that has answered; the others are tried all the same. No seeds, or none but
// the member itself, is the first member of a pool. Seeds that did not answer
// are tried again as long as the member lives.
//
// Faults: member.join_failed, with the fault of one seed as its cause;
// member.join_overdue; member.participant_closed.
func (m *Member) Join(ctx context.Context, seeds []id.NodeID) error {
	library, err := m.running()
	if err != nil {
		return err
	}
	seeds = slices.DeleteFunc(slices.Clone(seeds), func(s id.NodeID) bool { return s == m.cfg.Self || s.IsZero() })
	m.mu.Lock()
	m.table.expect(seeds, time.Now())
	m.mu.Unlock()
	outcomes := make(chan error, len(seeds))
	places := make(chan struct{}, atOnce)
	for _, seed := range seeds {
		if !m.tasks.start(func() {
			places <- struct{}{}
			defer func() { <-places }()
			outcomes <- m.contact(library, seed)
		}) {
			return m.closed()
		}
	}
	began := time.Now()
	var cause error
	for range seeds {
		select {
		case err := <-outcomes:
			if err == nil {
				return nil
			}
			cause = err
		case <-ctx.Done():
			return fault.New(fault.MemberJoinOverdue, component,
				"seeds", shorts(seeds), "waited", time.Since(began).Round(time.Millisecond)).Because(context.Cause(ctx))
		}
	}
	if cause == nil {
		return nil
	}
	if m.ctx.Err() != nil {
		return m.closed()
	}
	return fault.New(fault.MemberJoinFailed, component, "count", len(seeds), "seeds", shorts(seeds), "pool", m.cfg.Pool).Because(cause)
}

// contact exchanges views with one peer. Where it could not be dialled the
// endpoint's own fault is returned.
func (m *Member) contact(library *memberlist.Memberlist, peer id.NodeID) error {
	if m.ctx.Err() != nil {
		return m.closed()
	}
	_, err := library.Join([]string{address(peer)})
	if err == nil {
		m.wakeUp()
		return nil
	}
	if why := m.transport.failure(peer); why != nil {
		return why
	}
	return err
}

// SetPeers says which nodes count, beside the member itself: others have no
// row and no facts, and are not heard of. Those that are not alive are
// contacted, now and again and again. Rows of nodes that no longer count are
// dropped without a fact. Before the first call every node counts that a
// permitted peer vouches for.
func (m *Member) SetPeers(peers []id.NodeID) {
	m.mu.Lock()
	m.table.restrict(peers, m.cfg.Self, time.Now())
	m.mu.Unlock()
	m.wakeUp()
	nudge(m.kick)
}

// SetEpoch changes the epoch that the others see beside this member's boot,
// and returns without waiting until they do. It is no doubt: their facts keep
// the incarnation. Faults: member.participant_closed.
func (m *Member) SetEpoch(epoch uint64) error {
	if _, err := m.running(); err != nil {
		return err
	}
	m.mu.Lock()
	same := m.meta.epoch == epoch
	m.meta.epoch = epoch
	m.mu.Unlock()
	if !same {
		m.raise()
	}
	return nil
}

// raise tells the meta under a new incarnation.
func (m *Member) raise() {
	library, err := m.running()
	if err != nil || !m.tasks.begin() {
		return
	}
	defer m.tasks.end()
	m.updates.Lock()
	defer m.updates.Unlock()
	_ = library.UpdateNode(time.Nanosecond) // says that not everybody has heard it yet
	m.wakeUp()
}

// Leave tells the others that this member goes of its own will, and waits until
// some have been told, for 5 s at most. It is final: Close comes next. Faults:
// member.leave_overdue, after which the others will see it die instead;
// member.participant_closed.
func (m *Member) Leave(ctx context.Context) error {
	library, err := m.running()
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.left = true
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	deadline, _ := ctx.Deadline()
	began := time.Now()
	done := make(chan error, 1)
	if !m.tasks.start(func() { done <- library.Leave(max(time.Until(deadline), time.Millisecond)) }) {
		return m.closed()
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.wakeUp()
	if err != nil {
		return fault.New(fault.MemberLeaveOverdue, component, "waited", time.Since(began).Round(time.Millisecond)).Because(err)
	}
	return nil
}

// running is the library, from Start to Close.
func (m *Member) running() (*memberlist.Memberlist, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.library == nil || m.ctx.Err() != nil {
		return nil, m.closed()
	}
	return m.library, nil
}

// rejoin contacts peers that are not alive, a few at a time: the library
// forgets the dead, and the halves of a healed partition do not find each
// other.
func (m *Member) rejoin() {
	for {
		every := m.cfg.Profile.Rejoin
		pause := time.NewTimer(every*3/4 + rand.N(every/2)) // or all would dial at once
		select {
		case <-pause.C:
		case <-m.kick:
			pause.Stop()
		case <-m.ctx.Done():
			pause.Stop()
			return
		}
		m.contactMissing()
	}
}

func (m *Member) contactMissing() {
	library, err := m.running()
	if err != nil {
		return
	}
	m.mu.Lock()
	nodes := m.table.missing(m.cfg.Self)
	if m.left {
		nodes = nil
	}
	m.mu.Unlock()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	var contacts sync.WaitGroup
	for _, node := range nodes[:min(len(nodes), atOnce)] {
		contacts.Go(func() { _ = m.contact(library, node) })
	}
	contacts.Wait()
}
