package orch

import (
	"context"

	"muster/internal/core/gate"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// pinged: a node has answered, or not.
type pinged struct {
	asked gate.Booted
	pong  *controlpb.Pong
	err   error
}

// peersTold: a node has been told of the others, or not.
type peersTold struct {
	node    id.NodeID
	boot    id.BootID
	version uint64
	err     error
}

// pulse asks every acknowledged node for a sign of life, and tells of the
// others those that do not know the latest.
func (m *mailbox) pulse() {
	for _, b := range m.gate.Members() {
		l := m.living(b)
		if !l.acknowledged() {
			continue
		}
		if !l.asking {
			l.asking = true
			m.o.tasks.Go(func() { m.o.pulseOne(b) })
		}
		if l.told != m.peers && !l.telling {
			l.telling = true
			epoch, version, peers := m.pool.Epoch, m.peers, m.acquaintances()
			m.o.tasks.Go(func() { m.o.tellPeers(b, epoch, version, peers) })
		}
	}
}

func (o *Orch) pulseOne(b gate.Booted) {
	ctx, cancel := context.WithTimeout(o.ctx, o.figures.gate.Contact)
	defer cancel()
	pong, err := ping(ctx, o.calls, b)
	o.post(pinged{asked: b, pong: pong, err: err})
}

func (m *mailbox) hearPong(p pinged) {
	n := m.nodes[p.asked.Node]
	if n == nil {
		return
	}
	if asked := n.known(p.asked.Boot); asked != nil {
		asked.asking = false
	}
	if p.err != nil {
		return // its silence grows, which the gate watches
	}
	boot := controlpb.Boot(p.pong.GetBootId())
	if l := n.known(boot); l != nil {
		l.answer, l.phase = m.o.now(), p.pong.GetPhase()
		l.figures = p.pong.GetStage()
		if f := p.pong.GetFacts(); f != nil {
			l.facts = f
		}
	}
	m.stepGate(gate.ContactMade{Node: n.ID, Boot: boot})
}

func (o *Orch) tellPeers(b gate.Booted, epoch, version uint64, peers []*controlpb.Peer) {
	ctx, cancel := context.WithTimeout(o.ctx, o.figures.gate.Contact)
	defer cancel()
	_, err := o.calls.Call(ctx, b.Node, &controlpb.Request{Body: &controlpb.Request_Peers{
		Peers: &controlpb.Peers{Epoch: epoch, Peers: peers},
	}})
	o.post(peersTold{node: b.Node, boot: b.Boot, version: version, err: err})
}

func (m *mailbox) hearTold(t peersTold) {
	n := m.nodes[t.node]
	if n == nil {
		return
	}
	if l := n.known(t.boot); l != nil {
		l.telling = false
		if t.err == nil {
			l.told = max(l.told, t.version)
		}
	}
}
