package orch

import (
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// lossWithin is what is promised of every loss.
const lossWithin = 10 * time.Second

// An edge goes wrong while every socket, SWIM and control are well: the answer
// ends in time, by a fault that names the node at fault and the component, and
// the same nodes serve the next run.
func TestAnEdgeThatIsStuckIsNamed(t *testing.T) {
	halves := func(n *fakeNode) { n.halves = true }
	for _, c := range []struct {
		name      string
		stage     int
		strike    func(*fakeNode)
		code      fault.Code
		component string
	}{
		{"half a record to the next stage", 1, halves, fault.EdgeRecordOverdue, "edge"},
		{"half a record to the orchestrator", 2, halves, fault.EdgeRecordOverdue, "edge"},
		{"the first stage reads no more", 0, func(n *fakeNode) { n.shut = true }, fault.RunEdgeStalled, component},
		{"the last stage reads no more", 2, func(n *fakeNode) { n.shut = true }, fault.RunEdgeStalled, component},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3, three).boot()
			first := w.serving(id.RunID{})
			s, err := w.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			victim := w.nodeOf(s.Run.Stages[c.stage].Node)
			var hit time.Time
			f := mustFault(t, w.strike(func() {
				hit = time.Now()
				victim.do(func() { c.strike(victim) })
			}), c.code)
			if took := time.Since(hit); took > lossWithin {
				t.Errorf("the fault came after %s", took)
			}
			if f.Node != victim.name || f.Component != c.component || f.Hint() == "" {
				t.Errorf("it names %q and %q: %v", f.Node, f.Component, f)
			}
			if ends := told[event.RunEnded](w.events); len(ends) != 1 || ends[0].Node != idOf(victim.key) {
				t.Errorf("outcomes told: %+v", ends)
			}
			victim.do(func() { victim.halves, victim.shut = false, false })
			w.serving(first)
			if said, _, err := w.say(2); err != nil || said != "5 6 " {
				t.Errorf("the next run said %q, %v", said, err)
			}
		})
	}
}

func (w *world) nodeOf(of id.NodeID) *fakeNode {
	for _, n := range w.nodes {
		if idOf(n.key) == of {
			return n
		}
	}
	w.t.Fatalf("no node %s", of.Short())
	return nil
}
