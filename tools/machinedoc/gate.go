package main

import (
	"time"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/id"
)

var (
	gateA = gate.Booted{Node: id.NodeID{1}, Boot: id.BootID{1}, Endpoint: "a:6878"}
	gateB = gate.Booted{Node: id.NodeID{2}, Boot: id.BootID{2}, Endpoint: "b:6878"}
)

// due marks a tick at which the phase's own deadline has come.
const due = "when it is due"

func gateMachine() machine {
	b := gateB
	other := id.BootID{9}
	return machine{
		name: "gate",
		intro: "Pool readiness, for a pool of two nodes. In waiting, nothing is known of the second node yet; it is the one that the\n" +
			"facts are of.",
		phases: texts(gate.Phases()),
		kinds:  anys(gate.Events()),
		rows: []row{
			{event: gate.PoolDefined{Epoch: 2, Members: []gate.Member{{ID: gateA.Node}}}, when: "without the second node"},
			{event: gate.PoolDefined{Epoch: 1, Members: []gate.Member{{ID: gateA.Node}}}, when: "of no higher epoch"},
			{event: gate.NodeKnown(b)},
			{event: gate.NodeKnown{Node: b.Node, Boot: b.Boot, Endpoint: "c:6878"}, when: "at another endpoint"},
			{event: gate.NodeKnown{Node: b.Node, Boot: other, Endpoint: b.Endpoint}, when: "of another boot"},
			{event: gate.SwimSeen{Node: b.Node, Boot: b.Boot, State: gate.SwimAlive, Incarnation: 1}, when: "alive"},
			{event: gate.SwimSeen{Node: b.Node, Boot: b.Boot, State: gate.SwimAlive, Incarnation: 2}, when: "alive at a higher incarnation"},
			{event: gate.SwimSeen{Node: b.Node, Boot: b.Boot, State: gate.SwimSuspect, Incarnation: 1}, when: "suspect"},
			{event: gate.SwimSeen{Node: b.Node, Boot: b.Boot, State: gate.SwimLeft, Incarnation: 1}, when: "left"},
			{event: gate.NodeAvailable{Node: b.Node, Boot: b.Boot, Attempt: 1}},
			{event: gate.NodeFaulted{Node: b.Node, Boot: b.Boot, Attempt: 1}},
			{event: gate.EndpointDialled{Node: b.Node, Boot: b.Boot, Endpoint: b.Endpoint, Fault: fault.New(fault.InternalUnexpected, "")}, when: "in vain"},
			{event: gate.ContactMade{Node: b.Node, Boot: b.Boot}},
			{event: gate.NonceAnswered{Node: b.Node, Boot: b.Boot, Round: 1}, when: "by the last node"},
			{event: gate.HolderAnswered{Ask: 1, Boot: b.Boot}, when: "with no rival"},
			{event: gate.HolderGone{Ask: 1, Boot: b.Boot}, when: "with no rival"},
			{event: gate.ViewRead{}},
			{event: gate.HealthSeen{Bad: true}, when: "bad"},
			{event: gate.CommitAsked{Run: id.RunID{1}, Epoch: 1, Round: 1, Nodes: []gate.Booted{gateA, gateB}}},
			{event: gate.RunEnded{Run: id.RunID{1}}},
			{event: gate.FormationAsked{}},
			{event: gate.Tick{}, when: due},
			{event: gate.Tick{}, when: "over a second late"},
		},
		try: tryGate,
	}
}

func tryGate(phase int, r row) (string, []any) {
	g, now := gateIn(gate.Phases()[phase])
	var effects []gate.Effect
	if r.event != nil {
		switch r.when {
		case due:
			now = dueGate(g, now)
		case "over a second late":
			now += 2 * time.Second
		}
		effects = g.Step(r.event.(gate.Event), now)
	}
	return g.Phase().String(), anys(effects)
}

// dueGate brings the gate to just before its next deadline, with contact kept.
func dueGate(g *gate.Gate, now time.Duration) time.Duration {
	switch g.Phase() {
	case gate.Settling:
		return keep(g, now, time.Second)
	case gate.Asking:
		return keep(g, now, 500*time.Millisecond)
	default:
		return now + 100*time.Millisecond
	}
}

// keep lets time pass while both nodes answer, up to the tick that is due.
func keep(g *gate.Gate, now, long time.Duration) time.Duration {
	until := now + long
	for now += 100 * time.Millisecond; now < until; now += 100 * time.Millisecond {
		g.Step(gate.ViewRead{}, now)
		for _, n := range []gate.Booted{gateA, gateB} {
			g.Step(gate.ContactMade{Node: n.Node, Boot: n.Boot}, now)
		}
	}
	return until
}

func gateIn(p gate.Phase) (*gate.Gate, time.Duration) {
	c := gate.Local()
	c.Window = time.Second
	if p == gate.Aborted {
		c.LossPolicy = gate.Abort
	}
	g, now := gate.New(c), time.Duration(0)
	if p == gate.Unformed {
		return g, now
	}
	g.Step(gate.ViewRead{}, now)
	g.Step(gate.PoolDefined{Epoch: 1, Members: []gate.Member{{ID: gateA.Node}, {ID: gateB.Node}}}, now)
	gateUp(g, gateA)
	if p == gate.Waiting {
		return g, now
	}
	gateUp(g, gateB)
	if p == gate.Settling {
		return g, now
	}
	now = keep(g, now, time.Second)
	g.Step(gate.Tick{}, now)
	g.Step(gate.NonceAnswered{Node: gateA.Node, Boot: gateA.Boot, Round: 1}, now)
	if p == gate.Asking {
		return g, now
	}
	g.Step(gate.NonceAnswered{Node: gateB.Node, Boot: gateB.Boot, Round: 1}, now)
	if p == gate.Committed || p == gate.Faulted {
		g.Step(gate.CommitAsked{Run: id.RunID{1}, Epoch: 1, Round: 1, Nodes: []gate.Booted{gateA, gateB}}, now)
	}
	if p == gate.Faulted || p == gate.Aborted {
		g.Step(gate.SwimSeen{Node: gateA.Node, Boot: gateA.Boot, State: gate.SwimSuspect, Incarnation: 1}, now)
		g.Step(gate.SwimSeen{Node: gateA.Node, Boot: gateA.Boot, State: gate.SwimAlive, Incarnation: 2}, now)
	}
	return g, now
}

func gateUp(g *gate.Gate, n gate.Booted) {
	g.Step(gate.NodeKnown(n), 0)
	g.Step(gate.SwimSeen{Node: n.Node, Boot: n.Boot, State: gate.SwimAlive, Incarnation: 1}, 0)
	g.Step(gate.NodeAvailable{Node: n.Node, Boot: n.Boot, Attempt: 1}, 0)
	g.Step(gate.EndpointDialled{Node: n.Node, Boot: n.Boot, Endpoint: n.Endpoint}, 0)
	g.Step(gate.ContactMade{Node: n.Node, Boot: n.Boot}, 0)
}
