package orch

import (
	"context"
	"maps"
	"slices"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/store"
)

// letter is what the mailbox takes: an event of a core, or one of the types of
// this package that end in the past.
type letter any

// mailbox owns the cores and the ledger. Everything in it belongs to the
// goroutine of loop; others send letters, or ask.
type mailbox struct {
	o     *Orch
	gate  *gate.Gate
	run   run.State // the latest; idle before the first
	lead  *lead     // what the run is made of; nil before the first
	pool  store.Pool
	nodes map[id.NodeID]*node

	wanted    bool            // runs are to be formed
	ready     *gate.PoolReady // stands until it is lost or used
	readyAt   time.Duration
	published bool   // nodes can read the model
	formed    uint32 // runs so far
	hold      hold
	formAt    time.Duration // instant of the formAgain to come; 0: none
	peers     uint64        // version of what nodes are told of one another; rises

	owed    []owedStage     // stages of ended runs that their nodes may hold still
	overs   []chan struct{} // closed when no run is under way
	waiters []waiter        // hellos that wait for a holder's answer
	later   []delayed       // letters for an instant to come
	next    []letter        // from the cores to one another

	gateWake, runWake, pulseDue time.Duration
}

// delayed is a letter that is taken at an instant.
type delayed struct {
	at time.Duration
	letter
}

// asked has something done or looked up inside the mailbox.
type asked struct {
	do   func(*mailbox)
	done chan struct{}
}

// modelPublished: the digests of the model are known.
type modelPublished struct{}

func newMailbox(o *Orch, pool store.Pool) *mailbox {
	cfg := o.figures.gate
	cfg.Self = o.self
	m := &mailbox{o: o, gate: gate.New(cfg), nodes: map[id.NodeID]*node{}, wanted: true}
	m.define(pool)
	return m
}

// loop is the mailbox's life.
func (m *mailbox) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer m.shut()
	for {
		m.settle()
		timer.Reset(max(0, m.due()-m.o.now()))
		select {
		case <-m.o.ctx.Done():
			return
		case <-timer.C:
			m.tick()
		case <-m.o.admission.ready:
			m.hearAdmission()
		case l := <-m.o.mail:
			m.take(l)
		}
	}
}

// take is the one place where something arrives.
func (m *mailbox) take(l letter) {
	switch l := l.(type) {
	case gate.SwimSeen:
		m.stepGate(l)
		m.untrust(l)
	case gate.Event:
		m.stepGate(l)
	case run.TornDown:
		m.stepRun(l)
		m.freed(func(o run.Of) bool { return o == l.Of })
	case run.Event:
		m.stepRun(l)
	case helloHeard:
		m.hearHello(l)
	case pinged:
		m.hearPong(l)
	case peersTold:
		m.hearTold(l)
	case modelPublished:
		m.published = true
		m.form()
	case runRecorded:
		m.hearRecorded(l)
	case edgesJoined:
		m.hearJoined(l)
	case formAgain:
		m.formAt = 0
		m.form()
	case generationFailed:
		m.hearFailed(l)
	case asked:
		l.do(m)
		close(l.done)
	}
}

// settle takes what the cores have for one another, in order.
func (m *mailbox) settle() {
	for len(m.next) > 0 {
		l := m.next[0]
		m.next = m.next[1:]
		m.take(l)
	}
}

func (m *mailbox) then(l letter) { m.next = append(m.next, l) }

// after has a letter taken once d has passed.
func (m *mailbox) after(d time.Duration, l letter) {
	m.later = append(m.later, delayed{m.o.now() + d, l})
}

// due is the next instant at which something is to happen by itself.
func (m *mailbox) due() time.Duration {
	at := m.pulseDue
	for _, wake := range []time.Duration{m.gateWake, m.runWake} {
		if wake != 0 {
			at = min(at, wake)
		}
	}
	for _, d := range m.later {
		at = min(at, d.at)
	}
	return at
}

// tick lets happen what is due.
func (m *mailbox) tick() {
	now := m.o.now()
	if m.gateWake != 0 && now >= m.gateWake {
		m.gateWake = 0
		m.stepGate(gate.Tick{})
	}
	if m.runWake != 0 && now >= m.runWake {
		m.runWake = 0
		m.stepRun(run.Tick{})
	}
	m.later = slices.DeleteFunc(m.later, func(d delayed) bool {
		if now < d.at {
			return false
		}
		m.then(d.letter)
		return true
	})
	if now >= m.pulseDue {
		m.pulse()
		m.expireWaiters(now)
		m.watchStep()
		m.pulseDue = now + m.o.figures.gate.Contact/pulses
	}
}

// pulses is how often within the gate's bound a node is asked for a sign of
// life.
const pulses = 4

func (m *mailbox) stepGate(e gate.Event) {
	for _, f := range slices.Clone(m.gate.Step(e, m.o.now())) {
		m.performGate(f)
	}
}

func (m *mailbox) stepRun(e run.Event) {
	var effects []run.Effect
	m.run, effects = run.Step(m.run, e, m.o.now())
	for _, f := range effects {
		m.performRun(f)
	}
}

// define makes the pool this one, here, in the endpoint and in the member.
func (m *mailbox) define(p store.Pool) {
	m.pool = p
	m.hold.until = 0 // what kept it from serving may have gone
	keep := map[id.NodeID]bool{}
	candidates := make([]gate.Member, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		keep[n.ID] = true
		candidates = append(candidates, gate.Member{ID: n.ID, Name: n.Name})
		if m.nodes[n.ID] == nil {
			m.nodes[n.ID] = newNode(n)
		}
		m.nodes[n.ID].Node = n
	}
	maps.DeleteFunc(m.nodes, func(of id.NodeID, n *node) bool {
		if !keep[of] {
			n.stopDialling()
			m.freed(func(o run.Of) bool { return o.Node == of })
		}
		return !keep[of]
	})
	m.o.members.Store(&keep)
	m.introduce()
	m.o.member.SetPeers(slices.Collect(maps.Keys(keep)))
	_ = m.o.member.SetEpoch(p.Epoch) // a closed member has no epoch to tell
	m.o.journal.Tell(event.PoolDefined{Pool: p.Name, Epoch: p.Epoch, Nodes: len(p.Nodes)})
	m.stepGate(gate.PoolDefined{Epoch: p.Epoch, Members: candidates})
}

// shut answers everybody who waits and ends what the run holds.
func (m *mailbox) shut() {
	for _, n := range m.nodes {
		n.stopDialling()
	}
	if m.lead != nil {
		m.lead.finish(context.Cause(m.o.ctx))
		m.closeSession()
	}
}

// ask has do called by the mailbox, and waits until it was.
func (o *Orch) ask(ctx context.Context, do func(*mailbox)) error {
	a := asked{do: do, done: make(chan struct{})}
	select {
	case o.mail <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
}

// stateOf is SWIM's state as the gate calls it.
func stateOf(s member.State) gate.SwimState { return gate.SwimState(s) }
