package orch

import (
	"context"
	"crypto/rand"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/plan"
	"muster/internal/core/run"
	"muster/internal/edge"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
	"muster/internal/wire/controlpb"
)

// lead is what the run at hand is made of.
type lead struct {
	key    run.Key
	ready  gate.PoolReady
	since  time.Duration // when the pool became ready
	stages []*placed
	edges  []id.EdgeID // one into each stage, and one out of the last

	live    context.Context // ends with the outcome
	endLive context.CancelCauseFunc
	all     context.Context // ends when the run is done
	endAll  context.CancelCauseFunc
	outcome chan store.Outcome // room for one
	serve   chan struct{}      // closed when every stage is ready

	arrival *edge.Arrival // the answers' edge; nil before it is expected
	session *session      // nil before it serves
}

// placed is a stage of the plan and what its node has told of it.
type placed struct {
	plan.Stage
	is       substance
	progress *controlpb.StageProgress
	ready    *controlpb.StageReady
}

// finish ends everything of a run that is still under way.
func (l *lead) finish(cause error) {
	l.endLive(cause)
	l.endAll(cause)
}

// form begins a run, if one is wanted and everything is there.
func (m *mailbox) form() {
	if m.held() {
		return
	}
	idle := m.run.Phase == run.Idle || m.run.Phase == run.Done
	if !m.wanted || m.ready == nil || !m.published || !idle || m.owes(m.ready.Members) || m.awaitsOffers(m.ready.Members) {
		return
	}
	runID, err := id.NewRunID(rand.Reader)
	if err != nil {
		m.o.fail(err)
		return
	}
	m.formed++
	l := &lead{
		key: run.Key{Run: runID, Attempt: m.formed}, ready: *m.ready, since: m.readyAt,
		outcome: make(chan store.Outcome, 1), serve: make(chan struct{}),
	}
	l.live, l.endLive = context.WithCancelCause(m.o.ctx)
	l.all, l.endAll = context.WithCancelCause(m.o.ctx)
	m.lead, m.ready = l, nil
	m.run = run.New(m.o.cfg.Settings)
	m.stepRun(run.RunAsked{Key: l.key})
}

// performRun does what the run asks for.
func (m *mailbox) performRun(f run.Effect) {
	switch f := f.(type) {
	case run.Wake:
		m.runWake = f.At
	case run.PhaseChanged:
		m.o.journal.Tell(event.RunPhaseChanged{Run: m.run.Key.Run, From: f.From.String(), To: f.To.String()})
	case run.Plan:
		m.place(f.Key)
	case run.Commit:
		m.then(gate.CommitAsked{Run: f.Run, Epoch: f.Epoch, Round: f.Round, Nodes: booted(f.Stages)})
	case run.ReturnPool:
		m.then(gate.RunEnded{Run: f.Run})
	case run.Provision:
		if f.Stage == 0 {
			m.expectAnswers()
		}
		m.provision(f)
	case run.OpenServing:
		close(m.lead.serve)
	case run.CloseServing:
		m.closeSession()
	case run.RunCompleted:
		m.conclude(store.Completed, id.NodeID{}, nil)
	case run.RunStopped:
		m.conclude(store.Stopped, id.NodeID{}, nil)
	case run.RunFaulted:
		m.conclude(store.Faulted, f.Node, f.Fault)
	case run.TearDown:
		m.tearDown(f.Of)
	case run.TeardownOverdue:
		m.o.journal.Tell(event.RunTeardownOverdue{Run: f.Run, Fault: f.Fault})
	case run.RunDone:
		m.done(f.Key)
	}
}

func booted(stages []run.Placed) []gate.Booted {
	all := make([]gate.Booted, len(stages))
	for i, s := range stages {
		all[i] = gate.Booted{Node: s.Node, Boot: s.Boot}
	}
	return all
}

// stageOf finds the stage that a report is about, nil where it is of another
// run, attempt, node or boot.
func (m *mailbox) stageOf(o run.Of) *placed {
	if m.lead == nil || o.Key != m.lead.key {
		return nil
	}
	for _, s := range m.lead.stages {
		if s.Node == o.Node && s.Boot == o.Boot {
			return s
		}
	}
	return nil
}

// conclude makes the one outcome known, once.
func (m *mailbox) conclude(result store.Result, node id.NodeID, why *fault.Fault) {
	l := m.lead
	m.holdOff(why)
	l.outcome <- store.Outcome{Result: result, Fault: why, Ended: time.Now()}
	m.o.journal.Tell(event.RunEnded{Run: l.key.Run, Outcome: string(result), Node: node, Fault: why})
	over := fault.From(m.cause(why))
	m.o.tracker.RunEnded(l.key.Run, over)
	for _, s := range l.stages {
		m.o.tracker.Excuse(s.Node)
	}
	l.endLive(over)
}

// cause is what requests of a run that has ended are told.
func (m *mailbox) cause(why *fault.Fault) error {
	if why != nil {
		return why
	}
	return fault.New(fault.RunStopped, component)
}

// done gives the pool back. The next run needs a readiness of its own.
func (m *mailbox) done(k run.Key) {
	m.lead.finish(m.cause(m.run.Fault))
	if m.o.cfg.Policy.Once {
		m.wanted = false
	}
	m.then(gate.RunEnded{Run: k.Run})
	m.tellOver()
}
