package orch

import (
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/wire/controlpb"
)

// helloHeard: a node asks to be acknowledged. It is answered once.
type helloHeard struct {
	peer      id.NodeID
	boot      id.BootID
	pool      string
	addresses []string
	version   string
	platform  string
	answer    chan helloAnswer // room for one
}

type helloAnswer struct {
	reply *controlpb.HelloReply
	fault *fault.Fault
}

// waiter is a hello whose boot is not the one that counts, until the gate has
// heard from the holder.
type waiter struct {
	helloHeard
	due time.Duration
}

// holderSlack is what a waiter waits beyond the holder's own deadline.
const holderSlack = 500 * time.Millisecond

func (m *mailbox) hearHello(h helloHeard) {
	n := m.nodes[h.peer]
	switch {
	case h.pool != "" && h.pool != m.pool.Name:
		m.refuse(h, fault.New(fault.PoolUnknown, component, "pool", h.pool, "have", m.pool.Name))
		return
	case n == nil:
		m.refuse(h, m.o.stranger(h.peer))
		return
	}
	l := n.life(h.boot)
	if l.retired {
		m.refuse(h, m.retired(n))
		return
	}
	l.addresses, l.version, l.platform = h.addresses, h.version, h.platform
	n.ended = nil
	m.stepGate(gate.NodeKnown{Node: h.peer, Boot: h.boot, Endpoint: l.address()})
	if m.holders()[h.peer].Boot == h.boot {
		m.acknowledge(h)
		return
	}
	m.waiters = append(m.waiters, waiter{h, m.o.now() + m.o.figures.gate.Holder + holderSlack})
}

// acknowledge answers a hello of the boot that counts.
func (m *mailbox) acknowledge(h helloHeard) {
	m.introduce()
	n := m.nodes[h.peer]
	l := n.life(h.boot)
	l.told = m.peers
	m.o.journal.Tell(event.NodeAcknowledged{Node: h.peer, Label: n.label(), Boot: h.boot, Address: l.address()})
	h.answer <- helloAnswer{reply: &controlpb.HelloReply{
		Pool: m.pool.Name, Epoch: m.pool.Epoch, BootId: controlpb.ID(m.o.boot),
		Peers: m.acquaintances(), Swim: swimSettings(m.o.figures.profile),
	}}
}

func (m *mailbox) refuse(h helloHeard, f *fault.Fault) {
	m.o.journal.Tell(event.NodeRefused{Node: h.peer, Boot: h.boot, Fault: f})
	h.answer <- helloAnswer{fault: f}
}

func (m *mailbox) retired(n *node) *fault.Fault {
	return fault.New(fault.NodeBootRetired, component, "name", n.label())
}

// answerWaiters answers the hellos of one boot: acknowledged where f is nil.
func (m *mailbox) answerWaiters(of id.NodeID, boot id.BootID, f *fault.Fault) {
	kept := m.waiters[:0]
	for _, w := range m.waiters {
		switch {
		case w.peer != of || w.boot != boot:
			kept = append(kept, w)
		case f != nil:
			m.refuse(w.helloHeard, f)
		default:
			m.acknowledge(w.helloHeard)
		}
	}
	m.waiters = kept
}

// expireWaiters answers those for whom the gate has said nothing new: it has
// refused their boot before.
func (m *mailbox) expireWaiters(now time.Duration) {
	for len(m.waiters) > 0 && now >= m.waiters[0].due {
		w := m.waiters[0]
		n := m.nodes[w.peer]
		if n == nil {
			m.answerWaiters(w.peer, w.boot, m.o.stranger(w.peer))
			continue
		}
		if m.holders()[w.peer].Boot == w.boot {
			m.answerWaiters(w.peer, w.boot, nil)
			continue
		}
		f := n.life(w.boot).refused
		if f == nil {
			f = fault.New(fault.NodeIDContested, component, "name", n.label(),
				"endpoint", m.holders()[w.peer].Endpoint, "rival", n.life(w.boot).address())
		}
		m.answerWaiters(w.peer, w.boot, f)
	}
}

// hearLeave lets a node go.
func (m *mailbox) hearLeave(peer id.NodeID) {
	if n := m.nodes[peer]; n != nil {
		m.leave(n, m.holders()[peer].Boot)
	}
}

// leave ends a boot for good.
func (m *mailbox) leave(n *node, boot id.BootID) {
	if boot.IsZero() {
		return
	}
	n.life(boot).retired = true
	m.freed(func(o run.Of) bool { return o.Node == n.ID && o.Boot == boot })
	m.o.journal.Tell(event.NodeReportedLeaving{Node: n.ID, Label: n.label(), Boot: boot})
	m.stepGate(gate.SwimSeen{Node: n.ID, Boot: boot, State: gate.SwimLeft})
	if m.run.Outcome != run.Open { // it has freed what it held
		m.then(run.TornDown{Of: run.Of{Key: m.run.Key, Node: n.ID, Boot: boot}})
	}
}

func swimSettings(p member.Profile) *controlpb.SwimSettings {
	return &controlpb.SwimSettings{
		Profile:                p.Name,
		ProbeIntervalMicros:    controlpb.Micros(p.ProbeInterval),
		ProbeTimeoutMicros:     controlpb.Micros(p.ProbeTimeout),
		GossipIntervalMicros:   controlpb.Micros(p.GossipInterval),
		PushPullIntervalMicros: controlpb.Micros(p.PushPull),
		SuspicionMultiplier:    uint32(max(p.Suspicion, 0)),
	}
}
