package orch

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Orders to nodes: how long one call may take, and the pause before it is made
// again: sooner where it was not answered.
const (
	orderWithin = 5 * time.Second
	orderPause  = 200 * time.Millisecond
	orderAgain  = time.Second
)

// provision orders a stage from its node; the answer is told to the run.
func (m *mailbox) provision(f run.Provision) {
	l := m.lead
	req := &controlpb.Request{Body: &controlpb.Request_Provision{Provision: m.order(l, f)}}
	label := m.label(f.Node)
	m.o.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(l.live, orderWithin)
		defer cancel()
		reply, err := m.o.calls.Call(ctx, f.Node, req)
		if err == nil && controlpb.Boot(reply.GetProvision().GetBootId()) != f.Boot {
			err = fault.New(fault.NodeRestarted, component, "name", label)
		}
		if err != nil {
			m.o.post(run.StageRefused{Of: f.Of, Fault: fault.From(err)})
			return
		}
		m.o.post(run.StageAccepted{Of: f.Of})
	})
	if f.Stage == 0 {
		m.o.tasks.Go(func() { m.o.join(l) })
	}
}

// order words a stage for its node.
func (m *mailbox) order(l *lead, f run.Provision) *controlpb.Provision {
	s := l.stages[f.Stage]
	p := &controlpb.Provision{
		RunId: controlpb.ID(f.Run), Attempt: f.Attempt, BootId: controlpb.ID(f.Boot),
		Model: m.o.model.source, Layers: controlpb.LayersOf([2]int{s.Start, s.End}),
		Stage: uint32(f.Stage), Stages: uint32(len(l.stages)), Recipe: controlpb.RecipeOf(m.o.model.recipe),
		In:    &controlpb.EdgeSpec{EdgeId: controlpb.ID(l.edges[f.Stage]), PeerId: controlpb.ID(m.o.self)},
		Epoch: l.ready.Epoch, Probe: m.o.model.asked,
		Out: &controlpb.EdgeSpec{EdgeId: controlpb.ID(l.edges[f.Stage+1]), PeerId: controlpb.ID(m.o.self), Addresses: m.o.advertised()},
	}
	if f.Stage > 0 {
		p.In.PeerId = controlpb.ID(l.stages[f.Stage-1].Node)
	}
	if f.Stage+1 < len(l.stages) {
		next := l.stages[f.Stage+1].Node
		p.Out.PeerId, p.Out.Addresses = controlpb.ID(next), nil
		if told := m.living(m.holders()[next]); told != nil {
			p.Out.Addresses = told.addresses
		}
	}
	return p
}

// advertised is where nodes reach the orchestrator, none where it listens on
// every address: they know the one they found it at.
func (o *Orch) advertised() []string {
	at := o.endpoint.Addr()
	if at.Addr().IsUnspecified() {
		return nil
	}
	return []string{netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()}
}

// owedStage is a stage that its node has not freed yet. It outlives the run: a
// node that was suspected may live and still hold it when the run is done.
type owedStage struct {
	run.Of
	end context.CancelFunc // of the orders to free it
}

// tearDown orders a node to free the run, again and again until nothing of it is
// there, whoever still waits for it: a report of that may be lost with the node
// that sent it.
func (m *mailbox) tearDown(of run.Of) {
	req := &controlpb.Request{Body: &controlpb.Request_TearDown{TearDown: &controlpb.TearDown{
		RunId: controlpb.ID(of.Run), Attempt: of.Attempt, BootId: controlpb.ID(of.Boot), Reason: reasonOf(m.run.Fault),
	}}}
	ctx, cancel := context.WithCancel(m.o.ctx)
	m.owed = append(m.owed, owedStage{of, cancel})
	m.o.tasks.Go(func() {
		defer cancel()
		for {
			pause := orderPause
			reply, err := m.o.order(ctx, of.Node, req)
			if err == nil {
				told := reply.GetTearDown()
				// Another boot holds nothing of it: the process that did is gone.
				if told.GetGone() || controlpb.Boot(told.GetBootId()) != of.Boot {
					m.o.post(run.TornDown{Of: of})
					return
				}
				pause = orderAgain
			}
			if err != nil && !m.o.isMember(of.Node) {
				// It was taken out of the pool and cannot be reached: where it
				// lives, it is refused at its next report and frees all it has.
				m.o.post(run.TornDown{Of: of})
				return
			}
			if !sleep(ctx, pause) {
				return
			}
		}
	})
}

// freed takes note that nothing of a stage is left, and forms what had to wait
// for that.
func (m *mailbox) freed(is func(run.Of) bool) {
	m.owed = slices.DeleteFunc(m.owed, func(s owedStage) bool {
		if is(s.Of) {
			s.end()
			return true
		}
		return false
	})
	m.form()
}

// owes says which members of a readiness still hold a stage of a former run: they
// would refuse another.
func (m *mailbox) owes(members []gate.Booted) bool {
	return slices.ContainsFunc(m.owed, func(s owedStage) bool {
		return slices.ContainsFunc(members, func(b gate.Booted) bool { return b.Node == s.Node && b.Boot == s.Boot })
	})
}

// reasonOf is a fault as a message, nil for none: a nil fault in an error is
// none either.
func reasonOf(f *fault.Fault) *controlpb.Fault {
	if f == nil {
		return nil
	}
	return controlpb.FaultOf(f)
}

func (o *Orch) order(ctx context.Context, n id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	return o.calls.Call(ctx, n, req)
}
