package orch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/plan"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// offer asks for what layers of a model are made of.
func (n *fakeNode) offer(model string, start, end int) (*controlpb.Provision, error) {
	reply, err := n.call(&controlpb.Request{Body: &controlpb.Request_Offer{Offer: &controlpb.Offer{
		BootId: controlpb.ID(n.id), Model: model, Layers: controlpb.LayersOf([2]int{start, end}), Attempt: 1,
	}}})
	return reply.GetOffer().GetShard(), err
}

// saysOffer tells how far an offer is.
func (n *fakeNode) saysOffer(p stage.Phase, start, end int, why *fault.Fault, again ...time.Duration) {
	n.t.Helper()
	m := &controlpb.OfferChanged{Layers: controlpb.LayersOf([2]int{start, end}), Phase: p.String(), Done: 1, Total: 4}
	if len(again) > 0 {
		m.AgainMicros = controlpb.Micros(again[0])
	}
	if why != nil {
		m.Fault = controlpb.FaultOf(why)
	}
	if err := n.report(&controlpb.Report{Event: &controlpb.Report_OfferChanged{OfferChanged: m}}); err != nil {
		n.t.Fatal(err)
	}
}

// offering boots all nodes of a world, the last with an offer of layers that it
// has begun to load.
func offering(t *testing.T, start, end int, change ...func(*Config)) (*world, *fakeNode) {
	t.Helper()
	w := newWorld(t, 2, change...)
	until(t, "the model's digests", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Model.Published
	})
	n := w.nodes[1]
	n.open(w.Orch)
	if err := n.hello(""); err != nil {
		t.Fatal(err)
	}
	if _, err := n.offer("tale", start, end); !errors.Is(err, fault.OfferNodeUnconfirmed) {
		t.Errorf("before it was available: %v", err)
	}
	n.available()
	until(t, "SWIM to see it", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Nodes[1].Swim == "alive"
	})
	shard, err := n.offer("tale", start, end)
	if err != nil {
		t.Fatal(err)
	}
	depth := w.model.facts.Layers
	first, last := shard.GetStage() == 0, shard.GetStage()+1 == shard.GetStages()
	if first != (start == 0) || last != (end == depth) || shard.GetModel().GetRevision() != w.model.manifest.Revision || shard.GetEpoch() != 1 {
		t.Errorf("the offer is made of %v", shard)
	}
	n.saysOffer(stage.Loading, start, end, nil)
	w.nodes[0].boot(w.Orch)
	return w, n
}

func (w *world) blocked(by string) bool {
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(s.Pool.Blockers, func(b Blocker) bool { return strings.Contains(b.What, by) })
}

// A pool that is ready waits for what a node offers, says so, and plans with it as
// a pin once it is admitted.
func TestAnAdmittedOfferIsAPin(t *testing.T) {
	w, n := offering(t, 0, 1, func(c *Config) { c.Stages[0] = 2 })
	until(t, "the wait that is told", func() bool { return w.blocked("its offer of layers 0 to 0 is not admitted yet: loading, 25 %") })
	if planned := told[event.RunPlanned](w.events); len(planned) != 0 {
		t.Fatalf("planned %+v", planned)
	}
	if err := n.register(n.ctx, admit.ForOffer); err != nil {
		t.Fatal(err)
	}
	w.serving(id.RunID{})
	stages := told[event.RunPlanned](w.events)[0].Stages
	if len(stages) != 2 || stages[0].Node != idOf(n.key) || stages[0].Layers != [2]int{0, 1} || !strings.Contains(stages[0].Reason, "as its operator offers") {
		t.Errorf("planned %+v", stages)
	}
	if granted := told[event.LeaseGranted](w.events); granted[0].Purpose != string(admit.ForOffer) || granted[0].Node != idOf(n.key) {
		t.Errorf("granted %+v", granted)
	}
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("it said %q, %v", said, err)
	}
}

// An offer that fails is no pin: its node is told as one that failed its doctor,
// and the plan is made without it.
func TestAnOfferThatFailsIsNotWaitedFor(t *testing.T) {
	w, n := offering(t, 0, 1, func(c *Config) { c.Stages = [2]int{1, 1} })
	until(t, "the wait that is told", func() bool { return w.blocked("its offer of layers") })
	n.spoil = func(r *admit.Report) { r.Slice[0]++ }
	if err := n.register(n.ctx, admit.ForOffer); !errors.Is(err, fault.AdmitSliceMismatched) {
		t.Errorf("another slice was registered: %v", err)
	}
	n.do(func() { n.spoil = nil })
	n.saysOffer(stage.TearingDown, 0, 1, fault.New(fault.DoctorCheckFailed, "doctor", "layers", "0 to 0", "check", "cosine"))
	w.serving(id.RunID{})
	if failed := told[event.OfferFailed](w.events); len(failed) != 1 || failed[0].Fault.Code != fault.DoctorCheckFailed {
		t.Errorf("told %+v", failed)
	}
	s, err := w.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := s.Nodes[1].Unfit; s.Nodes[1].Offer != nil || f == nil || f.Code != fault.DoctorCheckFailed {
		t.Errorf("the node is told as %+v", s.Nodes[1])
	}
	if granted := told[event.LeaseGranted](w.events); slices.ContainsFunc(granted, func(g event.LeaseGranted) bool { return g.Purpose == string(admit.ForOffer) }) {
		t.Errorf("granted %+v", granted)
	}
}

// An offer that failed and comes again is waited for, and a node that is lost in
// between is the ready pool's loss: no run is begun on it.
func TestAnOfferThatComesAgainIsWaitedFor(t *testing.T) {
	w, n := offering(t, 0, 1, func(c *Config) { c.Stages[0] = 2 })
	until(t, "the wait that is told", func() bool { return w.blocked("its offer of layers") })
	n.saysOffer(stage.TearingDown, 0, 1, fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", ""), time.Second)
	until(t, "the next try that is told", func() bool { return w.blocked("it is tried again: worker") })
	if err := n.faulted(fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "")); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss of readiness", func() bool { return len(told[event.PoolReadinessLost](w.events)) == 1 })
	if planned := told[event.RunPlanned](w.events); len(planned) != 0 {
		t.Errorf("planned %+v", planned)
	}
	n.attempt = 2
	n.available()
	w.serving(id.RunID{})
}

// The pool's operator comes first: what is offered against the cuts is released,
// and why is told.
func TestAnOfferAgainstTheCutsIsReleased(t *testing.T) {
	w, n := offering(t, 0, 1, func(c *Config) { c.Cuts = []int{2} })
	if err := n.register(n.ctx, admit.ForOffer); err != nil {
		t.Fatal(err)
	}
	w.serving(id.RunID{})
	released := told[event.OfferReleased](w.events)
	if len(released) != 1 || released[0].Node != idOf(n.key) || released[0].Layers != [2]int{0, 1} || !strings.Contains(released[0].Reason, "another pin") {
		t.Errorf("released %+v", released)
	}
}

// What cannot be offered is refused by name, and nothing is wanted of it.
func TestOffersThatCannotBeAreRefused(t *testing.T) {
	w, n := offering(t, 0, 1)
	depth := w.model.facts.Layers
	for name, c := range map[string]struct {
		model      string
		start, end int
		code       fault.Code
	}{
		"another model":   {"other", 0, 1, fault.OfferModelUnknown},
		"a short digest":  {w.model.manifest.Revision[:4], 0, 1, fault.OfferModelUnknown},
		"too many layers": {"tale", 0, depth + 1, fault.ModelCutRefused},
	} {
		if _, err := n.offer(c.model, c.start, c.end); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := n.offer(w.model.manifest.Revision[:12], 1, depth); err != nil {
		t.Errorf("by its revision: %v", err)
	}
	want, err := registrar{w.Orch}.Wanted(t.Context(), admit.Report{Binding: admit.Binding{Purpose: admit.ForOffer, Node: idOf(w.nodes[0].key)}})
	if err != nil || want.Purpose != "" {
		t.Errorf("of a node that offers nothing there is wanted %+v (%v)", want.Binding, err)
	}
	if err := n.faulted(fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL")); err != nil {
		t.Fatal(err)
	}
	want, err = registrar{w.Orch}.Wanted(t.Context(), admit.Report{Binding: admit.Binding{Purpose: admit.ForOffer, Node: idOf(n.key)}})
	if err != nil || want.Purpose != "" {
		t.Errorf("of a node that has faulted there is wanted %+v (%v)", want.Binding, err)
	}
	var pins []plan.Pin
	w.inside(func(m *mailbox) { pins = m.offered([]plan.Node{{ID: idOf(n.key), Boot: n.id}}) })
	if len(pins) != 0 {
		t.Errorf("pinned are %+v", pins)
	}
}
