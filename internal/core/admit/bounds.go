package admit

import (
	"slices"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Allow counts one request of a node and refuses it where they come faster than
// the book's bounds. Faults: admit.rate_exceeded, admit.book_full.
func (b *Book) Allow(node id.NodeID, now time.Duration) *fault.Fault {
	b.now = max(b.now, now)
	e, f := b.entry(node)
	if f != nil {
		return f
	}
	paid := max(e.spent, b.now) + b.cfg.RequestEvery
	if ahead := paid - b.now - time.Duration(b.cfg.Burst)*b.cfg.RequestEvery; ahead > 0 {
		return fault.New(fault.AdmitRateExceeded, component, "wait", upToMillis(ahead))
	}
	e.spent = paid
	return nil
}

// Refuse counts a refusal that was made before a report could be judged: what
// the node sent was no report, or its owner wants none.
func (b *Book) Refuse(node id.NodeID, why *fault.Fault, now time.Duration) []Effect {
	b.pass(now)
	if e, f := b.entry(node); f == nil {
		b.refuse(e, why)
	}
	return b.take()
}

// unaware lists refusals for which a node is not held off: something ended
// while its report was on its way, or the tracker was started anew.
var unaware = []fault.Code{fault.AdmitChallengeUnknown, fault.AdmitShardUnwanted, fault.AdmitRunEnded}

func (b *Book) refuse(e *entry, why *fault.Fault) {
	b.emit(NodeRefused{Node: e.node, Why: why})
	if e.lease == nil {
		e.why = why
	}
	if slices.Contains(unaware, why.Code) {
		return
	}
	e.failures++
	e.heldFor = why
	e.heldUntil = b.now + b.cfg.pause(e.failures)
}

// pause is how long a node is held off after so many refusals in a row.
func (c Config) pause(failures int) time.Duration {
	wait := c.PauseLeast
	for ; failures > 1 && wait < c.PauseMost; failures-- {
		wait *= 2
	}
	return min(wait, c.PauseMost)
}

// Held refuses a node whose pause is not over. Faults: admit.node_held.
func (b *Book) Held(node id.NodeID, now time.Duration) *fault.Fault {
	b.now = max(b.now, now)
	if e := b.nodes[node]; e != nil {
		return b.held(e)
	}
	return nil
}

// held refuses a node whose pause is not over.
func (b *Book) held(e *entry) *fault.Fault {
	if b.now >= e.heldUntil {
		return nil
	}
	return fault.New(fault.AdmitNodeHeld, component, "count", e.failures, "wait", upToMillis(e.heldUntil-b.now), "what", e.heldFor)
}

// entry is the node's, a new one where there was none.
func (b *Book) entry(node id.NodeID) (*entry, *fault.Fault) {
	e := b.nodes[node]
	if e == nil {
		if len(b.nodes) >= b.cfg.Nodes {
			b.sweep()
		}
		if len(b.nodes) >= b.cfg.Nodes {
			return nil, fault.New(fault.AdmitBookFull, component, "count", len(b.nodes))
		}
		e = &entry{node: node}
		b.nodes[node] = e
	}
	e.seen = b.now
	return e, nil
}

// pass lets time go on until now.
func (b *Book) pass(now time.Duration) {
	b.now = max(b.now, now)
	if b.now >= b.due {
		b.sweep()
	}
}

// sweep ends leases that are over, forgets challenges that have been so for
// long, and nodes of which nothing is left.
func (b *Book) sweep() {
	b.due = b.now + b.cfg.ChallengeFor
	for _, e := range b.inOrder() {
		if e.lease != nil && b.now >= e.lease.Expires {
			b.end(e, b.expired())
		}
		if e.lease != nil {
			b.due = min(b.due, e.lease.Expires)
		}
		b.forget(e)
		if e.lease == nil && len(e.challenges) == 0 && b.now-e.seen > 2*b.cfg.PauseMost {
			delete(b.nodes, e.node)
		}
	}
}

func (b *Book) expired() *fault.Fault {
	return fault.New(fault.AdmitLeaseExpired, component, "want", b.cfg.LeaseFor)
}

// inOrder lists the entries by node, so that effects have one order.
func (b *Book) inOrder() []*entry {
	all := make([]*entry, 0, len(b.nodes))
	for _, e := range b.nodes {
		all = append(all, e)
	}
	slices.SortFunc(all, func(x, y *entry) int { return x.node.Compare(y.node) })
	return all
}
