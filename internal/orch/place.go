package orch

import (
	"crypto/rand"

	"muster/internal/core/plan"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// reservePerMil is how much of each node's memory a plan leaves free.
const reservePerMil = 100

// place makes the plan of a run from what its nodes have told.
func (m *mailbox) place(k run.Key) {
	l := m.lead
	var nodes []plan.Node
	for _, b := range l.ready.Members {
		told := m.living(b)
		if told == nil || told.available == nil || told.faulted != nil {
			continue // its readiness is being lost: the commit will say so
		}
		nodes = append(nodes, plan.Node{
			ID: b.Node, Boot: b.Boot, Name: m.label(b.Node), Memory: told.available.GetMemoryAvailableBytes(),
		})
	}
	p, err := m.planOf(nodes)
	if err == nil {
		err = l.lay(p, m.o.model)
	}
	if err != nil {
		m.then(run.PlanFailed{Key: k, Fault: fault.From(err)})
		return
	}
	told := event.RunPlanned{Run: k.Run}
	made := run.PlanMade{Key: k, Epoch: l.ready.Epoch, Round: l.ready.Round}
	for _, s := range p.Stages {
		told.Stages = append(told.Stages, event.PlannedStage{
			Node: s.Node, Label: s.Name, Layers: [2]int{s.Start, s.End}, Bytes: s.WeightBytes + s.KVBytes + s.ComputeBytes, Reason: s.Reason,
		})
		made.Stages = append(made.Stages, run.Placed{Node: s.Node, Boot: s.Boot})
	}
	m.o.journal.Tell(told)
	for _, r := range p.Released {
		if told := m.living(m.holders()[r.Node]); told != nil && told.offer != nil {
			told.offer.released = r.Reason
		}
		m.o.journal.Tell(event.OfferReleased{Run: k.Run, Node: r.Node, Label: m.label(r.Node), Layers: [2]int{r.Start, r.End}, Reason: r.Reason})
	}
	m.then(made)
}

func (m *mailbox) planOf(nodes []plan.Node) (plan.Plan, error) {
	r := m.o.model.recipe
	c := plan.Constraints{
		Context: r.Share(), Slots: r.Slots, ReservePerMil: reservePerMil, Least: m.o.cfg.Stages[0], Most: m.o.cfg.Stages[1],
	}
	parts, err := m.o.model.parted(m.o.cfg.Cuts)
	if err != nil {
		return plan.Plan{}, err
	}
	if len(parts) > len(m.pool.Nodes) {
		return plan.Plan{}, fault.New(fault.PlanNodesTooFew, component, "nodes", len(m.pool.Nodes), "least", len(parts))
	}
	c.Offers = m.offered(nodes)
	for i, part := range parts {
		c.Pins = append(c.Pins, plan.Pin{Node: m.pool.Nodes[i].ID, Start: part.Start, End: part.End})
	}
	return plan.Place(m.o.model.sizes(), nodes, c)
}

// lay takes a plan, says what its shards must be and names its edges.
func (l *lead) lay(p plan.Plan, of *model) error {
	for _, s := range p.Stages {
		what, err := of.identify(s)
		if err != nil {
			return err
		}
		l.stages = append(l.stages, &placed{Stage: s, is: what})
	}
	for range len(p.Stages) + 1 {
		e, err := id.NewEdgeID(rand.Reader)
		if err != nil {
			return err
		}
		l.edges = append(l.edges, e)
	}
	return nil
}
