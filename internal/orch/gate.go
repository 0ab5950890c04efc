package orch

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"muster/internal/control"
	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// performGate does what the gate asks for.
func (m *mailbox) performGate(f gate.Effect) {
	switch f := f.(type) {
	case gate.Wake:
		m.gateWake = f.At
	case gate.PhaseChanged:
		m.o.journal.Tell(event.PoolPhaseChanged{From: f.From.String(), To: f.To.String()})
	case gate.AskFacts:
		for _, n := range f.Nodes {
			m.recall(n)
		}
	case gate.DialBack:
		m.dialBack(f.Booted)
	case gate.AskHolder:
		m.o.tasks.Go(func() { m.o.askHolder(f) })
	case gate.RivalRefused:
		if n := m.nodes[f.Rival.Node]; n != nil {
			n.life(f.Rival.Boot).refused = f.Fault
		}
		m.answerWaiters(f.Rival.Node, f.Rival.Boot, f.Fault)
	case gate.BootReplaced:
		m.replaced(f)
	case gate.AskNonce:
		for _, b := range f.Members {
			m.o.tasks.Go(func() { m.o.askNonce(f.Round, b) })
		}
	case gate.PoolReady:
		m.ready, m.readyAt = &f, m.o.now()
		m.o.journal.Tell(event.PoolBecameReady{Epoch: f.Epoch, Nodes: len(f.Members)})
		m.form()
	case gate.PoolLost:
		m.ready = nil
		m.o.journal.Tell(event.PoolReadinessLost{Fault: f.Fault})
	case gate.PoolAborted:
		m.ready = nil
		m.o.journal.Tell(event.PoolFormationEnded{Fault: f.Fault})
	case gate.PoolRefused:
		m.o.journal.Tell(event.PoolFormationEnded{Fault: f.Fault})
	case gate.CommitGranted:
		m.record(f.Run)
	case gate.CommitRefused:
		m.then(run.CommitRefused{Key: m.keyOf(f.Run), Fault: f.Fault})
	case gate.RunFaulted:
		m.then(run.NodeLost{Key: m.keyOf(f.Run), Node: f.Node, Fault: m.named(f.Fault)})
	}
}

// keyOf is the key of a run that the gate names, none where it is not the one
// at hand.
func (m *mailbox) keyOf(r id.RunID) run.Key {
	if m.run.Key.Run != r {
		return run.Key{}
	}
	return m.run.Key
}

// recall tells the gate again what is known of the boot that counts.
func (m *mailbox) recall(of id.NodeID) {
	for _, row := range m.o.member.View().Rows {
		if row.Node == of && !row.Boot.IsZero() {
			m.then(gate.SwimSeen{Node: of, Boot: row.Boot, State: stateOf(row.State), Incarnation: row.Incarnation})
		}
	}
	l := m.living(m.holders()[of])
	if !l.acknowledged() {
		return
	}
	m.then(gate.NodeKnown{Node: of, Boot: l.boot, Endpoint: l.address()})
	if a := l.available; a != nil {
		m.then(gate.NodeAvailable{Node: of, Boot: l.boot, Attempt: a.GetAttempt()})
	}
	if f := l.faulted; f != nil {
		m.then(gate.NodeFaulted{Node: of, Boot: l.boot, Attempt: f.GetAttempt(), Fault: f.GetFault().Typed()})
	}
}

func (m *mailbox) replaced(f gate.BootReplaced) {
	n := m.nodes[f.Node]
	if n == nil {
		return
	}
	n.life(f.Former).retired = true
	n.stopDialling()
	m.freed(func(o run.Of) bool { return o.Node == f.Node && o.Boot == f.Former })
	m.o.tracker.BootChanged(f.Node, f.Boot)
	m.o.journal.Tell(event.NodeBootReplaced{Node: f.Node, Label: n.label(), Boot: f.Boot, Former: f.Former})
	m.introduce()
	m.answerWaiters(f.Node, f.Boot, nil)
}

// Dial-backs: how long one may take, and the pauses between them.
const (
	dialWithin = 3 * time.Second
	leastRetry = 100 * time.Millisecond
	mostRetry  = 2 * time.Second
)

// dialBack dials a node's endpoint until its key was met there.
func (m *mailbox) dialBack(b gate.Booted) {
	n := m.nodes[b.Node]
	if n == nil {
		return
	}
	n.stopDialling()
	ctx, cancel := context.WithCancel(m.o.ctx)
	n.dialling = cancel
	label := n.label()
	m.o.tasks.Go(func() {
		defer cancel()
		for pause := leastRetry; ; pause = min(2*pause, mostRetry) {
			err := m.o.dialOnce(ctx, b)
			if ctx.Err() != nil {
				return
			}
			m.o.post(gate.EndpointDialled{Node: b.Node, Boot: b.Boot, Endpoint: b.Endpoint, Fault: fault.From(err)})
			if err == nil {
				m.o.journal.Tell(event.NodeDialledBack{Node: b.Node, Label: label, Address: b.Endpoint})
				return
			}
			if !sleep(ctx, pause) {
				return
			}
		}
	})
}

func (o *Orch) dialOnce(ctx context.Context, b gate.Booted) error {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return o.endpoint.DialBack(ctx, b.Node, b.Endpoint)
}

// ended reports whether a context has.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// sleep waits for d; it is false where ctx has ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// askHolder asks the boot that holds an id at its last address. Where another
// boot answers there, the holder has gone.
func (o *Orch) askHolder(f gate.AskHolder) {
	if f.Holder.Endpoint == "" {
		return // it was never known where it is: its deadline decides
	}
	ctx, cancel := context.WithTimeout(o.ctx, o.figures.gate.Holder)
	defer cancel()
	there := control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return o.endpoint.OpenStreamAt(ctx, peer, control.Protocol, f.Holder.Endpoint)
	})
	boot, err := pingBoot(ctx, there, f.Holder)
	switch {
	case err != nil:
	case boot == f.Holder.Boot:
		o.post(gate.HolderAnswered{Ask: f.Ask, Boot: boot})
	default:
		o.post(gate.HolderGone{Ask: f.Ask, Boot: f.Holder.Boot})
	}
}

// pingBoot sends a fresh nonce and returns the boot that sends it back.
func pingBoot(ctx context.Context, c *control.Caller, b gate.Booted) (id.BootID, error) {
	pong, err := ping(ctx, c, b)
	return controlpb.Boot(pong.GetBootId()), err
}

// ping sends a fresh nonce and checks that it comes back.
func ping(ctx context.Context, c *control.Caller, b gate.Booted) (*controlpb.Pong, error) {
	nonce, err := id.NewNonce(rand.Reader)
	if err != nil {
		return nil, err
	}
	reply, err := c.Call(ctx, b.Node, &controlpb.Request{Body: &controlpb.Request_Ping{
		Ping: &controlpb.Ping{Nonce: uint64(nonce), BootId: controlpb.ID(b.Boot)},
	}})
	if err != nil {
		return nil, err
	}
	if reply.GetPing().GetNonce() != uint64(nonce) {
		return nil, errNonce
	}
	return reply.GetPing(), nil
}

var errNonce = errors.New("another nonce came back")

// askNonce puts the closing question to one member.
func (o *Orch) askNonce(round uint64, b gate.Booted) {
	ctx, cancel := context.WithTimeout(o.ctx, o.figures.gate.Nonce)
	defer cancel()
	if boot, err := pingBoot(ctx, o.calls, b); err == nil {
		o.post(gate.NonceAnswered{Node: b.Node, Boot: boot, Round: round})
	}
}
