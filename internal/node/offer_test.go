package node

import (
	"slices"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/reports"
	"muster/internal/testkit"
	"muster/internal/tracker/api"
	"muster/internal/wire/controlpb"
)

// shard answers an offer of the built-in model as an orchestrator does.
func (o *orchestrator) shard(f *controlpb.Offer) (*controlpb.Provision, *fault.Fault) {
	if f.GetModel() != demo.Name {
		return nil, fault.New(fault.OfferModelUnknown, "test", "model", f.GetModel(), "served", demo.Name)
	}
	of := o.plan()
	layers := f.GetLayers().Range()
	p := &controlpb.Provision{
		BootId: f.GetBootId(), Model: of.source, Layers: f.GetLayers(), Stages: 1, Recipe: controlpb.RecipeOf(recipe), Epoch: 1,
	}
	if layers[0] > 0 {
		p.Stage, p.Stages = 1, 2
	}
	if layers[1] < of.model.Layers {
		p.Stages++
	}
	if b := o.probe; b != nil {
		p.Probe = &controlpb.Probe{Digest: digestOf(b), SizeBytes: int64(len(b))}
	}
	return p, nil
}

// offering is the config of a node whose operator offers layers of the built-in
// model.
func (o *orchestrator) offering(start, end int) Config {
	cfg := o.realConfig()
	cfg.DataDir = o.t.TempDir()
	cfg.Offer = &Offer{Model: demo.Name, Layers: [2]int{start, end}}
	return cfg
}

// offered counts the words of an offer in a phase.
func (o *orchestrator) offered(n *running, phase string) int {
	return o.reported(n.id, func(r *controlpb.Report) bool { return r.GetOfferChanged().GetPhase() == phase })
}

// challenges is how often the tracker was asked for one.
func (o *orchestrator) challenges() int {
	n := 0
	for _, line := range o.asked.Lines() {
		if line == "POST "+api.ChallengePath {
			n++
		}
	}
	return n
}

func depth(o *orchestrator) int { return o.plan().model.Layers }

// An offer is resident and admitted, and no stage. A plan that gives its shard
// takes it over without another load, by a forward of its own, and after the run
// it stands again.
func TestAnOfferStandsAndAPlanTakesItOver(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t, func(o *orchestrator) { o.probe = demo.Probe() })
	plain := o.run(o.realConfig())
	plain.available(1)
	r := o.plan(plain)
	r.form()
	want := r.tell(20)
	r.end()
	if err := plain.end(); err != nil {
		t.Error(err)
	}

	before := len(o.leases())
	n := o.run(o.offering(0, depth(o)))
	n.available(1)
	if a := o.told(n.id)[0].GetNodeAvailable(); a == nil {
		t.Errorf("the first word of the node is %v", o.told(n.id)[0])
	}
	o.until("the offer", func() bool { return o.offered(n, "offered") == 1 })
	lease := o.leases()[before]
	if lease.Purpose != admit.ForOffer || !lease.Run.IsZero() || lease.Node != n.id || lease.Layers != [2]int{0, depth(o)} || !lease.Referenced {
		t.Errorf("the lease is of %+v", lease.Binding)
	}
	if s := n.status(); s.Phase != "available" || s.Stage == nil || !s.Stage.Offer || s.Stage.Phase != "offered" {
		t.Errorf("the node is %s with %+v", s.Phase, s.Stage)
	}
	r = o.plan(n)
	r.form()
	if got := r.tell(20); !slices.Equal(got, want) {
		t.Errorf("what was offered tells %v, what was planned %v", got, want)
	}
	if loads, forwards := count[event.StageLoaded](n), count[event.StageExamined](n); loads != 1 || forwards != 2 {
		t.Errorf("%d loads, %d forwards", loads, forwards)
	}
	if all := o.leases(); len(all) != before+2 || all[before+1].Purpose != admit.ForStage || all[before+1].Run != r.run {
		t.Errorf("%d leases more", len(all)-before)
	}
	r.end()
	o.until("the offer again", func() bool { return o.offered(n, "offered") == 2 })
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if o.offered(n, "tearing down") != 1 { // as it left
		t.Errorf("the offer was torn down %d times", o.offered(n, "tearing down"))
	}
}

// A plan of another shard has the offer freed, which is no fault.
func TestAnOfferGivesWayToAnotherShard(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.offering(1, 3))
	n.available(1)
	o.until("the offer", func() bool { return o.offered(n, "offered") == 1 })
	r := o.plan(n)
	r.form()
	if len(r.tell(5)) == 0 {
		t.Error("nothing is told")
	}
	o.until("the end of the offer", func() bool { return o.offered(n, "tearing down") == 1 })
	for _, m := range o.told(n.id) {
		if f := m.GetOfferChanged().GetFault(); f != nil || m.GetNodeFaulted() != nil {
			t.Errorf("told of a fault: %v", m)
		}
	}
	if count[event.StageLoaded](n) != 2 {
		t.Errorf("%d loads", count[event.StageLoaded](n))
	}
	r.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// An offer that fails its doctor, or is of nothing that is served, ends the
// process by that fault. The tracker hears of no registration.
func TestAnOfferThatCannotBeHeldEndsTheNode(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, c := range map[string]struct {
		spoil    func(t *testing.T, o *orchestrator, cfg *Config)
		code     fault.Code
		examined bool
	}{
		"its numbers are not the reference's": {
			spoil:    func(t *testing.T, o *orchestrator, _ *Config) { o.probe = spoiled(t) },
			code:     fault.DoctorCheckFailed,
			examined: true,
		},
		"its model is not served": {
			spoil: func(_ *testing.T, _ *orchestrator, cfg *Config) { cfg.Offer.Model = "another" },
			code:  fault.OfferModelUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			cfg := o.offering(0, depth(o))
			c.spoil(t, o, &cfg)
			n := o.run(cfg)
			err := n.outcome()
			if f := fault.From(err); err == nil || f.Code != c.code {
				t.Errorf("the node ended by %v", err)
			}
			if o.registrations() != 0 || len(o.leases()) != 0 {
				t.Errorf("the tracker was asked %v", o.asked.Lines())
			}
			if count[event.NodeBecameAvailable](n) != 1 || count[event.NodeFaulted](n) != 0 {
				t.Errorf("events: %+v", n.events)
			}
			kept, _, err := reports.Kept(cfg.DataDir)
			if c.examined && (err != nil || len(kept) != 1 || kept[0].Failed == nil || kept[0].Failed.Code != c.code) {
				t.Errorf("kept: %+v (%v)", kept, err)
			}
		})
	}
}

// An offer whose lease has ended is challenged, examined and registered anew,
// exactly once: after a suspicion, and after a tracker that was away for longer
// than a lease lasts and has forgotten everything.
func TestAnOfferIsAdmittedAnewOnce(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, hit := range map[string]func(o *orchestrator, n *running){
		"a suspicion": func(o *orchestrator, n *running) {
			o.tracker.NodeLost(n.id, fault.New(fault.NodeSuspected, "test", "name", "n"))
		},
		"a tracker that was away": func(o *orchestrator, _ *running) {
			o.away.Store(true)
			time.Sleep(3 * o.rules.LeaseFor)
			o.newTracker()
			o.away.Store(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t, func(o *orchestrator) {
				o.rules = admit.Config{LeaseFor: 900 * time.Millisecond, RenewEvery: 300 * time.Millisecond}
			})
			n := o.run(o.offering(0, 2))
			n.available(1)
			o.until("the offer", func() bool { return o.offered(n, "offered") == 1 })
			hit(o, n)
			o.until("the offer again", func() bool { return o.offered(n, "offered") == 2 })
			seen := len(o.asked.Lines())
			o.until("renewals", func() bool { return len(o.asked.Lines()) > seen+2 })
			if o.challenges() != 2 || o.registrations() != 2 || count[event.StageExamined](n) != 2 || count[event.StageLoaded](n) != 1 {
				t.Errorf("%d challenges, %d registrations, %d forwards, %d loads",
					o.challenges(), o.registrations(), count[event.StageExamined](n), count[event.StageLoaded](n))
			}
			if err := n.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A tracker that does not answer for less than a lease lasts ends nothing.
func TestAShortAbsenceOfTheTrackerEndsNoStage(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t, func(o *orchestrator) {
		o.rules = admit.Config{LeaseFor: 20 * time.Second, RenewEvery: 100 * time.Millisecond}
	})
	n := o.run(o.realConfig())
	n.available(1)
	r := o.plan(n)
	r.form()
	o.away.Store(true)
	missed := o.missed.Load()
	o.until("renewals in vain", func() bool { return o.missed.Load() > missed+2 })
	o.away.Store(false)
	seen := len(o.asked.Lines())
	o.until("renewals", func() bool { return len(o.asked.Lines()) > seen+1 })
	if o.reported(n.id, r.isFaulted) != 0 || o.registrations() != 1 || len(r.tell(5)) == 0 {
		t.Errorf("the stage faulted by %v; %d registrations", r.stageFault(n), o.registrations())
	}
	r.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
