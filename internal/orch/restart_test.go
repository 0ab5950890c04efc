package orch

import (
	"testing"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// An orchestrator that ends in the middle of a run and starts anew gives that
// run its outcome, trusts no readiness, and takes the nodes that say hello
// again. The journal goes on where it ended.
func TestARestartTrustsNothing(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	before, err := w.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Listen = w.Address()
	w.end(w.Orch)
	w.start()
	if o := w.outcome(first); o.Result != store.Faulted || o.Fault.Code != fault.RunOrphaned {
		t.Errorf("outcome %+v", o)
	}
	if s, err := w.Status(t.Context()); err != nil || s.Pool.Phase != "waiting" || s.Run != nil || s.Pool.Epoch != 1 {
		t.Errorf("status %+v, %v", s, err)
	}
	for _, n := range w.nodes {
		mustFault(t, n.report(nodeLeft()), fault.NodeUnacknowledged)
		n.die()
		n.boot(w.Orch)
	}
	w.serving(first)
	until(t, "the journal going on", func() bool {
		last, err := w.store.Last(t.Context())
		return err == nil && last > before
	})
}

// The journal can be followed from its start, and from anywhere, without a gap.
func TestEventsCanBeFollowed(t *testing.T) {
	w := newWorld(t, 1)
	all := w.Events(0)
	var last uint64
	for seen := false; !seen; {
		e, err := all.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence != last+1 {
			t.Fatalf("%d after %d", e.Sequence, last)
		}
		last = e.Sequence
		seen = e.Event == event.PoolPhaseChanged{}.Name()
	}
	from := w.Events(last)
	w.boot()
	w.serving(id.RunID{})
	for {
		e, err := from.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence <= last {
			t.Fatalf("%d after %d", e.Sequence, last)
		}
		if e.Event == (event.RunServed{}).Name() {
			break
		}
	}
	if from.Dropped() != 0 {
		t.Errorf("%d dropped", from.Dropped())
	}
	w.end(w.Orch)
	for {
		if _, err := from.Next(t.Context()); err != nil {
			break // the orchestrator has ended, or its store
		}
	}
}
