package admit

import (
	"slices"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
)

// Effect is what the owner of a Book has to tell, in order.
type Effect interface{ isEffect() }

// LeaseGranted: a node's shard may be routed to from now on.
type LeaseGranted struct{ Lease Lease }

// LeaseEnded: a node's shard may not be routed to any more.
type LeaseEnded struct {
	Lease Lease
	Why   *fault.Fault
}

// NodeRefused: a node's report was not accepted.
type NodeRefused struct {
	Node id.NodeID
	Why  *fault.Fault
}

func (LeaseGranted) isEffect() {}
func (LeaseEnded) isEffect()   {}
func (NodeRefused) isEffect()  {}

// Lease is one live route.
type Lease struct {
	ID Challenge // the challenge that its report answered
	Binding
	Checks   []probe.Check
	Capacity Capacity
	Speed    Speed
	Granted  time.Duration // instant
	Expires  time.Duration // instant at which it is over; each renewal moves it
}

// Book is the memory of a tracker: a state that its owner alone calls. An
// instant before the latest is taken for that one.
type Book struct {
	cfg     Config
	now     time.Duration
	nodes   map[id.NodeID]*entry
	kept    int           // challenges in all
	due     time.Duration // something may be over at this instant, nothing before
	ended   []id.RunID    // the latest runs that ended
	effects []Effect
}

// entry is what the book holds of one node.
type entry struct {
	node       id.NodeID
	challenges []challenge  // in the order in which they were given
	lease      *Lease       // nil: no live route
	boot       id.BootID    // of the latest report accepted
	sequence   uint64       // of it
	why        *fault.Fault // the latest refusal, or why its lease ended; nil while it has one
	failures   int          // refusals in a row
	heldUntil  time.Duration
	heldFor    *fault.Fault  // the latest of them
	spent      time.Duration // instant until which its requests are paid for, see Allow
	seen       time.Duration // instant of its latest request
}

// mostEnded is how many ended runs are remembered: a report may be on its way
// while its run ends.
const mostEnded = 64

// NewBook is an empty book.
func NewBook(c Config) *Book { return &Book{cfg: c.filled(), nodes: map[id.NodeID]*entry{}} }

// Config is the book's, with defaults filled in.
func (b *Book) Config() Config { return b.cfg }

// Due is the instant by which Tick is to be called.
func (b *Book) Due() time.Duration { return b.due }

// Tick ends what is over at now.
func (b *Book) Tick(now time.Duration) []Effect {
	b.pass(now)
	return b.take()
}

// Register judges what peer has sent against what is wanted of it, and grants a
// lease. The challenge is used up by an acceptance alone. A refused node is held
// off for a while, but where it could not know better: see unaware.
func (b *Book) Register(peer id.NodeID, s Signed, want Want, now time.Duration) (Lease, []Effect, *fault.Fault) {
	b.pass(now)
	e, f := b.entry(peer)
	if f != nil {
		return Lease{}, b.take(), f
	}
	if f := b.held(e); f != nil {
		return Lease{}, b.take(), f
	}
	if f := b.register(e, s, want); f != nil {
		if f.Code == fault.AdmitCheckFailed { // the node itself says so, under an open challenge
			b.end(e, f)
		}
		b.refuse(e, f)
		return Lease{}, b.take(), f
	}
	return *e.lease, b.take(), nil
}

func (b *Book) register(e *entry, s Signed, want Want) *fault.Fault {
	r, f := Verify(s)
	if f != nil {
		return f
	}
	if r.Node != e.node {
		return mismatch(fault.AdmitNodeMismatched, "node", e.node, r.Node)
	}
	c, f := e.answered(&r)
	if f != nil {
		return f
	}
	want.Challenge, want.After = c.value, 0
	if e.boot == r.Boot {
		want.After = e.sequence
	}
	if f := b.cfg.judge(&r, want, Times{Now: b.now, Issued: c.issued, Signed: b.now}); f != nil {
		return f
	}
	if slices.Contains(b.ended, r.Run) {
		return fault.New(fault.AdmitRunEnded, component, "run", r.Run.Short())
	}
	c.used = true
	b.grant(e, &r)
	return nil
}

func (b *Book) grant(e *entry, r *Report) {
	if e.lease != nil {
		b.end(e, fault.New(fault.AdmitLeaseReplaced, component))
	}
	b.void(e)
	e.boot, e.sequence = r.Boot, r.Sequence
	e.why, e.failures, e.heldUntil, e.heldFor = nil, 0, 0, nil
	e.lease = &Lease{
		ID: r.Challenge, Binding: r.Binding, Checks: r.Checks, Capacity: r.Capacity, Speed: r.Speed,
		Granted: b.now, Expires: b.now + b.cfg.LeaseFor,
	}
	b.due = min(b.due, e.lease.Expires)
	b.emit(LeaseGranted{Lease: *e.lease})
}

// Renew makes a lease last again. It needs no forward, but everything that the
// report was about must be as it was: another boot or digest ends the lease.
// Faults: admit.lease_unknown, admit.boot_mismatched, admit.lease_changed.
func (b *Book) Renew(node id.NodeID, boot id.BootID, lease Challenge, now Digests, at time.Duration) (Lease, []Effect, *fault.Fault) {
	b.pass(at)
	e := b.holder(node, lease)
	if e == nil {
		return Lease{}, b.take(), b.leaseUnknown(node)
	}
	e.seen = b.now
	if f := e.lease.changed(boot, now); f != nil {
		b.end(e, f)
		return Lease{}, b.take(), f
	}
	e.lease.Expires = b.now + b.cfg.LeaseFor
	return *e.lease, b.take(), nil
}

func (l *Lease) changed(boot id.BootID, now Digests) *fault.Fault {
	if boot != l.Boot {
		return mismatch(fault.AdmitBootMismatched, "boot", l.Boot, boot)
	}
	for _, d := range []struct {
		field     string
		want, got Digest
	}{
		{"slice", l.Slice, now.Slice},
		{"embedding", l.Embedding, now.Embedding},
		{"recipe", l.Recipe, now.Recipe},
		{"backend", l.Backend, now.Backend},
	} {
		if d.want != d.got {
			return mismatch(fault.AdmitLeaseChanged, d.field, d.want, d.got)
		}
	}
	return nil
}

// Return ends a lease at its node's wish. Faults: admit.lease_unknown.
func (b *Book) Return(node id.NodeID, lease Challenge, now time.Duration) ([]Effect, *fault.Fault) {
	b.pass(now)
	e := b.holder(node, lease)
	if e == nil {
		return b.take(), b.leaseUnknown(node)
	}
	b.end(e, fault.New(fault.AdmitLeaseReturned, component))
	return b.take(), nil
}

// NodeLost ends a node's lease and voids its challenges: it is suspected, dead,
// gone or faulted, or what is wanted of it has changed.
func (b *Book) NodeLost(node id.NodeID, why *fault.Fault, now time.Duration) []Effect {
	b.pass(now)
	if e := b.nodes[node]; e != nil {
		b.end(e, why)
	}
	return b.take()
}

// BootChanged ends what a node had under another boot than this one.
func (b *Book) BootChanged(node id.NodeID, boot id.BootID, now time.Duration) []Effect {
	b.pass(now)
	e := b.nodes[node]
	if e == nil {
		return b.take()
	}
	if e.lease != nil && e.lease.Boot != boot {
		b.end(e, fault.New(fault.NodeRestarted, component, "name", node.Short()))
	}
	b.drop(e, func(c challenge) bool { return !c.used && c.boot != boot })
	return b.take()
}

// RunEnded ends the leases of a run, and lets no later report into it.
func (b *Book) RunEnded(run id.RunID, why *fault.Fault, now time.Duration) []Effect {
	b.pass(now)
	if run.IsZero() {
		return b.take()
	}
	if !slices.Contains(b.ended, run) {
		b.ended = append(b.ended, run)
		b.ended = b.ended[max(0, len(b.ended)-mostEnded):]
	}
	for _, e := range b.inOrder() {
		if e.lease != nil && e.lease.Run == run {
			b.end(e, why)
		}
	}
	return b.take()
}

// Excuse voids a node's open challenges, since what it asked them for is over: a
// forward that was broken off leaves the node its room for the next.
func (b *Book) Excuse(node id.NodeID, now time.Duration) []Effect {
	b.pass(now)
	if e := b.nodes[node]; e != nil {
		b.void(e)
	}
	return b.take()
}

// holder is the entry of the node that holds the lease; nil where it does not.
func (b *Book) holder(node id.NodeID, lease Challenge) *entry {
	e := b.nodes[node]
	if e == nil || e.lease == nil || e.lease.ID != lease {
		return nil
	}
	return e
}

func (b *Book) leaseUnknown(node id.NodeID) *fault.Fault {
	f := fault.New(fault.AdmitLeaseUnknown, component)
	if e := b.nodes[node]; e != nil && e.why != nil {
		f.Cause = e.why
	}
	return f
}

// end is the one place where a lease ends. The node's open challenges end with
// it: what was measured before restores nothing.
func (b *Book) end(e *entry, why *fault.Fault) {
	if e.lease != nil {
		b.emit(LeaseEnded{Lease: *e.lease, Why: why})
		e.lease, e.why = nil, why
	}
	b.void(e)
}

func (b *Book) emit(e Effect) { b.effects = append(b.effects, e) }

func (b *Book) take() []Effect {
	told := b.effects
	b.effects = nil
	return told
}
