package node

import (
	"time"

	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

func (n *node) stepStage(e stage.Event) {
	var effects []stage.Effect
	n.stage, effects = stage.Step(n.stage, e, n.now())
	for _, effect := range effects {
		n.performStage(effect)
	}
}

func (n *node) performStage(e stage.Effect) {
	switch e := e.(type) {
	case stage.PhaseChanged:
		n.phaseChanged(e)
	case stage.ProvisionAccepted:
		n.accept(e)
	case stage.ProvisionRefused:
		n.answer(e.Ask, e.Fault)
	case stage.Prepare:
		n.prepare()
	case stage.FetchWeights:
		n.begin((*node).fetch)
	case stage.Load:
		n.begin((*node).load)
	case stage.Admit:
		n.begin((*node).admit)
	case stage.Connect:
		n.connect()
	case stage.StageReady:
		n.report.push(&controlpb.Report{Event: &controlpb.Report_StageReady{StageReady: n.work.ready()}})
	case stage.StageFaulted:
		n.report.push(&controlpb.Report{Event: &controlpb.Report_StageFaulted{StageFaulted: &controlpb.StageFaulted{
			RunId: controlpb.ID(e.Run), Attempt: e.Attempt, Fault: controlpb.FaultOf(e.Fault),
		}}})
	case stage.TakeDown:
		n.takeDown(e)
	case stage.TeardownOverdue:
		n.cfg.Tell(event.StageTeardownDelayed{Run: e.Run, Fault: e.Fault})
	case stage.TornDown:
		n.tornDown(e)
	case stage.Wake:
		n.workWake = e.At
	}
}

func (n *node) phaseChanged(e stage.PhaseChanged) {
	n.cfg.Tell(event.StagePhaseChanged{
		Run: e.Order.Run, Attempt: e.Order.Attempt, Former: e.From.String(), Phase: e.To.String(), Fault: e.Why,
	})
	if e.To < stage.TearingDown {
		n.report.push(progress(e.Order, e.To, 0, 0, ""))
	}
}

// progress is a report of how far a stage is.
func progress(o stage.Order, p stage.Phase, done, total int64, detail string) *controlpb.Report {
	return &controlpb.Report{Event: &controlpb.Report_StageProgress{StageProgress: &controlpb.StageProgress{
		RunId: controlpb.ID(o.Run), Attempt: o.Attempt, Phase: p.String(), Done: uint64(done), Total: uint64(total), Detail: detail,
	}}}
}

// askStage has the core say whether an order is taken.
func (n *node) askStage(a *ask) {
	n.asked++
	n.asks[n.asked] = a
	n.stepStage(stage.ProvisionAsked{Order: a.order, Ask: n.asked, DryRun: a.asked.GetDryRun()})
}

// answer tells whoever asked; nil is yes.
func (n *node) answer(number uint64, refused *fault.Fault) *ask {
	a := n.asks[number]
	delete(n.asks, number)
	a.answer <- refused
	return a
}

// accept takes the order over, unless it was only asked for or is held already.
func (n *node) accept(e stage.ProvisionAccepted) {
	a := n.answer(e.Ask, nil)
	if e.DryRun || n.work != nil {
		return
	}
	n.work = newWork(n.ctx, e.Order, a.asked, n.said)
	n.stage.Settings = n.cfg.Phases
	for _, d := range []struct {
		asked int64
		to    *time.Duration
	}{
		{a.asked.GetDeadlines().GetWeightsMicros(), &n.stage.Settings.Fetching},
		{a.asked.GetDeadlines().GetLoadMicros(), &n.stage.Settings.Loading},
		{a.asked.GetDeadlines().GetAdmitMicros(), &n.stage.Settings.Admitting},
		{a.asked.GetDeadlines().GetConnectMicros(), &n.stage.Settings.Connecting},
		{a.asked.GetDeadlines().GetTearDownMicros(), &n.stage.Settings.TakingDown},
	} {
		if d.asked > 0 {
			*d.to = controlpb.Duration(d.asked)
		}
	}
}

// endStage tears an order down on request. One that is not held is answered as
// torn down too.
func (n *node) endStage(e *ending) {
	n.stepStage(stage.TearDownAsked{Order: e.order})
}

// tornDown tells that nothing of an order is left. Where it was the one that
// was held, the next stage's worker is made, and an attempt that was to be
// freed is.
func (n *node) tornDown(e stage.TornDown) {
	n.cfg.Tell(event.StageTornDown{Run: e.Run, Attempt: e.Attempt})
	n.report.push(&controlpb.Report{Event: &controlpb.Report_StageTornDown{StageTornDown: &controlpb.StageTornDown{
		RunId: controlpb.ID(e.Run), Attempt: e.Attempt,
	}}})
	if n.work == nil || n.work.order != e.Order {
		return
	}
	n.work = nil
	n.free()
	if n.attempt != nil && !n.unfreed && !n.cfg.DeferWorker {
		n.makeCrew()
	}
}
