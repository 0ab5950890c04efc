package orch

import (
	"context"
	"net"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Who is not of the pool is told so, with what to do, and changes nothing.
func TestStrangersAreToldWhy(t *testing.T) {
	w := newWorld(t, 1)
	stranger := &fakeNode{t: t, key: newKey(t), name: "stranger"}
	stranger.open(w.Orch)
	f := mustFault(t, stranger.hello(""), fault.PoolNodeUnknown)
	if f.Attr("node") != idOf(stranger.key).String() || f.Attr("pool") != "test" {
		t.Errorf("it does not say who: %v", f)
	}
	if err := stranger.faulted(fault.New(fault.ArenaClosed, "")); err == nil {
		t.Error("a stranger's report was taken")
	}
	lost := w.nodes[0]
	lost.open(w.Orch)
	f = mustFault(t, lost.hello("another"), fault.PoolUnknown)
	if f.Attr("have") != "test" {
		t.Errorf("it does not say which pool there is: %v", f)
	}
	if err := lost.hello("test"); err != nil {
		t.Errorf("its own pool: %v", err)
	}
}

// Reports count once, of acknowledged boots.
func TestReportsOfOthersAreRefusedOrDropped(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	n.open(w.Orch)
	err := n.report(&controlpb.Report{Event: &controlpb.Report_NodeLeft{NodeLeft: &controlpb.NodeLeft{}}})
	mustFault(t, err, fault.NodeUnacknowledged)
	if err := n.hello(""); err != nil {
		t.Fatal(err)
	}
	n.available()
	n.sequence-- // the answer was lost: told again
	n.available()
	if got := told[event.NodeReportedAvailable](w.events); len(got) != 1 {
		t.Errorf("told %d times", len(got))
	}
	if err := n.report(&controlpb.Report{Event: &controlpb.Report_NodeLeft{NodeLeft: &controlpb.NodeLeft{}}}); err != nil {
		t.Fatal(err)
	}
	mustFault(t, n.faulted(fault.New(fault.ArenaClosed, "")), fault.NodeBootRetired)
	mustFault(t, n.hello(""), fault.NodeBootRetired)
}

// A second machine with a node's key is refused as long as the first answers,
// and both are named; once the first has gone it is taken.
func TestASecondMachineWithAKeyIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	holder := w.nodes[0]
	holder.boot(w.Orch)
	rival := &fakeNode{t: t, key: holder.key, name: holder.name}
	rival.open(w.Orch)
	f := mustFault(t, rival.hello(""), fault.NodeIDContested)
	if f.Attr("endpoint") != holder.endpoint.Addr().String() || f.Attr("rival") != rival.endpoint.Addr().String() {
		t.Errorf("it does not name both: %v", f)
	}
	holder.die()
	until(t, "the newcomer taken", func() bool { return rival.hello("") == nil })
	rival.available()
	w.serving(id.RunID{})
	if got := told[event.NodeBootReplaced](w.events); len(got) != 1 || got[0].Boot != rival.id || got[0].Former != holder.id {
		t.Errorf("replaced: %+v", got)
	}
}

// A node that answers SWIM and no question is not ready, and the status says
// what a person can look for.
func TestADeafNodeBlocksThePool(t *testing.T) {
	w := newWorld(t, 2)
	w.nodes[0].deaf = true
	w.boot()
	until(t, "questions left unanswered", func() bool {
		w.nodes[0].mu.Lock()
		defer w.nodes[0].mu.Unlock()
		return w.nodes[0].ignored >= 2
	})
	until(t, "a blocker that names it", func() bool {
		s, err := w.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range s.Pool.Blockers {
			if b.Node == idOf(w.nodes[0].key) && s.Nodes[0].Available && s.Nodes[0].Swim == "alive" {
				return true
			}
		}
		return false
	})
	if s, _ := w.Status(t.Context()); s.Pool.Phase != "waiting" {
		t.Errorf("the pool is %s", s.Pool.Phase)
	}
	if ready := told[event.PoolBecameReady](w.events); len(ready) != 0 {
		t.Errorf("ready: %+v", ready)
	}
	w.nodes[0].do(func() { w.nodes[0].deaf = false })
	w.serving(id.RunID{})
}

// A taken port is said, and nothing is left: the same folder opens afterwards.
func TestATakenPortLeavesNothing(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 0)
	w.end(w.Orch)
	cfg := w.cfg
	cfg.Listen = taken.LocalAddr().String()
	_, err = start(t.Context(), cfg, spell)
	mustFault(t, err, fault.EndpointPortTaken)
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
}

// A peer that sends half a request and nothing more is let go, and holds nobody
// up.
func TestHalfARequestHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes[0]
	n.open(w.Orch)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	s, err := n.endpoint.OpenStream(ctx, w.ID(), "muster/control/1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel(0)
	if _, err := s.Write([]byte{200, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	if err := n.hello(""); err != nil {
		t.Errorf("hello beside it: %v", err)
	}
	_ = s.SetDeadline(time.Now().Add(wait))
	if _, err := s.Read(make([]byte, 1)); err != nil {
		t.Errorf("half a request got no answer: %v", err)
	}
}

var _ endpoint.Stream = briefStream{}
