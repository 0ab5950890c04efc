package orch

import (
	"context"
	"sync"

	"muster/internal/core/admit"
	"muster/internal/core/gate"
	"muster/internal/core/plan"
	"muster/internal/core/probe"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// admission is what the tracker has to tell, until the mailbox takes it: the
// tracker may neither wait for the mailbox nor be called back by it.
type admission struct {
	mu    sync.Mutex
	told  []admit.Effect
	ready chan struct{} // holds one token while something is told
}

// Tell implements tracker.Owner.
func (a *admission) Tell(e admit.Effect) {
	a.mu.Lock()
	a.told = append(a.told, e)
	a.mu.Unlock()
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

func (a *admission) take() []admit.Effect {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.told
	a.told = nil
	return told
}

// registrar is the tracker's owner.
type registrar struct{ *Orch }

// Wanted implements tracker.Owner: a report is wanted of the nodes of the run at
// hand, for the stage that each was given, and of those whose operators offer a
// shard.
func (r registrar) Wanted(ctx context.Context, report admit.Report) (admit.Want, error) {
	var want admit.Want
	err := r.ask(ctx, func(m *mailbox) { want = m.wantedFor(report) })
	return want, err
}

// Tell implements tracker.Owner.
func (r registrar) Tell(e admit.Effect) { r.admission.Tell(e) }

// substance is what a stage of the plan must be proven to be.
type substance struct {
	slice, embedding admit.Digest
	tolerance        *probe.Tolerance // of its reference; nil: nobody knows what it must compute
}

// identify names what a stage will be handed, tensor by tensor.
func (m *model) identify(s plan.Stage) (substance, error) {
	var out substance
	layers := gguf.Range{Start: s.Start, End: s.End}
	p, err := gguf.PlanSlice(m.file, m.facts, layers)
	if err != nil {
		return out, err
	}
	if out.slice, err = m.digestOf(p); err != nil {
		return out, err
	}
	if s.Start == 0 {
		if p, err = gguf.PlanEmbedding(m.file, m.facts); err != nil {
			return out, err
		}
		if out.embedding, err = m.digestOf(p); err != nil {
			return out, err
		}
	}
	if m.probe != nil {
		t, err := m.probe.Tolerance([2]int{s.Start, s.End})
		if err != nil {
			return out, err
		}
		out.tolerance = &t
	}
	return out, nil
}

func (m *model) digestOf(p *gguf.SlicePlan) (admit.Digest, error) {
	d, err := admit.ParseDigest(p.Key(m.manifest))
	if err != nil {
		return d, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	return d, nil
}

// wantedFor is what a node of the run at hand must have proven of its stage, the
// zero value where nothing is wanted of it.
func (m *mailbox) wantedFor(r admit.Report) admit.Want {
	if r.Purpose == admit.ForOffer {
		return m.wantedForOffer(r)
	}
	l := m.lead
	if l == nil || m.run.Outcome != run.Open {
		return admit.Want{}
	}
	for _, s := range l.stages {
		told := m.living(gate.Booted{Node: s.Node, Boot: s.Boot})
		if s.Node == r.Node && told != nil && told.available != nil {
			return m.want(shardWanted{
				run: l.key, node: s.Node, boot: s.Boot, layers: [2]int{s.Start, s.End}, is: s.is, epoch: l.ready.Epoch,
			}, told.available, r)
		}
	}
	return admit.Want{}
}

// shardWanted is a shard of which a report is wanted; an offer's is of no run.
type shardWanted struct {
	run    run.Key
	node   id.NodeID
	boot   id.BootID
	layers [2]int
	is     substance
	epoch  uint64
}

func (m *mailbox) want(s shardWanted, said *controlpb.NodeAvailable, r admit.Report) admit.Want {
	recipe := m.o.model.recipe
	purpose := admit.ForStage
	if s.run.Run.IsZero() {
		purpose = admit.ForOffer
	}
	w := admit.Want{
		Binding: admit.Binding{
			Purpose: purpose, Run: s.run.Run, Attempt: s.run.Attempt,
			Pool: m.pool.Name, Epoch: s.epoch, Orchestrator: m.o.self, Node: s.node, Boot: s.boot,
			Revision: m.o.model.revision, Layers: s.layers, Depth: m.o.model.facts.Layers,
			Digests: admit.Digests{
				Slice: s.is.slice, Embedding: s.is.embedding, Recipe: admit.RecipeDigest(recipe),
				Backend: controlpb.Digest(said.GetVersions().GetBackend()),
			},
			Referenced: s.is.tolerance != nil,
		},
		Context: recipe.Context, Slots: recipe.Slots, ResidentBytes: said.GetMemoryAvailableBytes(),
	}
	if said.GetWorkerPolicy() == controlpb.WorkerPolicy_WORKER_POLICY_DEFERRED {
		// It had no worker when it became available: its first word is this one,
		// and the lease holds it to it.
		w.Backend = r.Backend
	}
	if s.is.tolerance != nil {
		w.Tolerance = *s.is.tolerance
	}
	return w
}

// routed is the run at hand as the tracker is asked about it.
func (m *mailbox) routed() admit.Run {
	l := m.lead
	r := admit.Run{ID: l.key.Run, Revision: m.o.model.revision, Depth: m.o.model.facts.Layers}
	for _, s := range l.stages {
		r.Stages = append(r.Stages, admit.Stage{
			Name: m.label(s.Node), Node: s.Node, Boot: s.Boot, Attempt: l.key.Attempt, Layers: [2]int{s.Start, s.End},
		})
	}
	return r
}

// unrouted says why a stage holds no live route, nil where it does.
func (m *mailbox) unrouted(of id.NodeID) *fault.Fault {
	for _, b := range m.o.tracker.Admitted(m.routed()) {
		if b.Node == of || b.Node.IsZero() {
			return b.Fault
		}
	}
	return nil
}

// hearAdmission follows the tracker. A lease that ends under the run at hand
// ends the run.
func (m *mailbox) hearAdmission() {
	for _, e := range m.o.admission.take() {
		switch e := e.(type) {
		case admit.LeaseGranted:
			l := e.Lease
			if told := m.living(gate.Booted{Node: l.Node, Boot: l.Boot}); told != nil {
				told.unfit = nil
			}
			if l.Purpose == admit.ForOffer {
				m.hearOfferRouted(l, true, nil)
			}
			m.o.journal.Tell(event.LeaseGranted{
				Node: l.Node, Label: m.label(l.Node), Boot: l.Boot, Purpose: string(l.Purpose), Run: l.Run,
				Layers: l.Layers, Lease: l.ID.String(), Checks: checksOf(l.Checks),
			})
		case admit.LeaseEnded:
			l := e.Lease
			m.o.journal.Tell(event.LeaseEnded{
				Node: l.Node, Label: m.label(l.Node), Boot: l.Boot, Run: l.Run, Layers: l.Layers, Lease: l.ID.String(), Fault: e.Why,
			})
			if l.Purpose == admit.ForOffer {
				m.hearOfferRouted(l, false, e.Why)
				continue
			}
			why := *e.Why
			why.Node = l.Node.Short()
			m.stepRun(run.StageFaulted{
				Of:    run.Of{Key: run.Key{Run: l.Run, Attempt: l.Attempt}, Node: l.Node, Boot: l.Boot},
				Fault: m.named(&why),
			})
		case admit.NodeRefused:
			m.o.journal.Tell(event.RegistrationRefused{Node: e.Node, Label: m.label(e.Node), Fault: e.Why})
		}
	}
}

func checksOf(checks []probe.Check) []event.Check {
	all := make([]event.Check, len(checks))
	for i, c := range checks {
		all[i] = event.Check(c)
	}
	return all
}

// untrust ends the route of a node that SWIM does not see alive. What the gate
// makes of it comes first.
func (m *mailbox) untrust(s gate.SwimSeen) {
	if s.State != gate.SwimAlive && m.holders()[s.Node].Boot == s.Boot {
		m.o.tracker.NodeLost(s.Node, fault.New(fault.NodeSuspected, component, "name", m.label(s.Node)))
	}
}
