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
		n.work = n.newWork(e.Order)
		n.prepare()
	case stage.Adopt:
		n.takeOver(e.Order)
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
		if e.Offer() {
			return // told with its phase
		}
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
	if e.Order.Offer() {
		n.offerChanged(e)
	} else if e.To < stage.TearingDown {
		n.report.push(progress(e.Order, e.To, 0, 0, ""))
	}
}

// progressed tells how far a stage or an offer is.
func (n *node) progressed(w *work, p stage.Phase, done, total int64, detail string) {
	if w.order.Offer() {
		n.report.push(n.offerProgress(p, done, total, detail))
		return
	}
	n.report.push(progress(w.order, p, done, total, detail))
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
	n.stepStage(stage.ProvisionAsked{Order: a.order, Ask: n.asked, DryRun: a.asked.GetDryRun(), Held: n.offers(a.asked)})
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
	if e.DryRun || n.work != nil && n.work.order == e.Order || n.next != nil && n.next.order == e.Order {
		return
	}
	n.next = a
	n.bound(a.asked.GetDeadlines())
}

// newWork is that of an offer, or of the order that was accepted.
func (n *node) newWork(o stage.Order) *work {
	if o.Offer() {
		return newWork(n.ctx, o, n.offer.shard, n.said)
	}
	a := n.next
	n.next = nil
	return newWork(n.ctx, o, a.asked, n.said)
}

// bound sets the deadlines of the phases, those that the order leaves open as
// the node has them.
func (n *node) bound(asked *controlpb.StageDeadlines) {
	n.stage.Settings = n.cfg.Phases
	for _, d := range []struct {
		asked int64
		to    *time.Duration
	}{
		{asked.GetWeightsMicros(), &n.stage.Settings.Fetching},
		{asked.GetLoadMicros(), &n.stage.Settings.Loading},
		{asked.GetAdmitMicros(), &n.stage.Settings.Admitting},
		{asked.GetConnectMicros(), &n.stage.Settings.Connecting},
		{asked.GetTearDownMicros(), &n.stage.Settings.TakingDown},
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
	if !e.Offer() {
		n.cfg.Tell(event.StageTornDown{Run: e.Run, Attempt: e.Attempt})
		n.report.push(&controlpb.Report{Event: &controlpb.Report_StageTornDown{StageTornDown: &controlpb.StageTornDown{
			RunId: controlpb.ID(e.Run), Attempt: e.Attempt,
		}}})
	}
	if n.next != nil && n.next.order == e.Order {
		n.next = nil
	}
	if n.work == nil || n.work.order != e.Order {
		return
	}
	n.work = nil
	n.free()
	if n.attempt != nil && !n.unfreed && !n.cfg.DeferWorker {
		n.makeCrew()
	}
	if !e.Offer() {
		n.offerNow()
	}
}
