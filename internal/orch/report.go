package orch

import (
	"slices"
	"strings"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// hearReport takes what a node tells of itself, and says why it does not. A
// report that was taken before is taken again without effect: its answer may
// have been lost.
func (m *mailbox) hearReport(peer id.NodeID, r *controlpb.Report) *fault.Fault {
	n := m.nodes[peer]
	if n == nil {
		return m.o.stranger(peer)
	}
	l := n.known(controlpb.Boot(r.GetBootId()))
	switch {
	case l != nil && l.retired:
		return m.retired(n)
	case !l.acknowledged():
		return fault.New(fault.NodeUnacknowledged, component, "name", n.label())
	case r.GetSequence() <= l.sequence:
		return nil
	}
	l.sequence = r.GetSequence()
	m.stepGate(gate.ContactMade{Node: peer, Boot: l.boot})
	switch e := r.GetEvent().(type) {
	case *controlpb.Report_NodeAvailable:
		m.hearAvailable(n, l, e.NodeAvailable)
	case *controlpb.Report_NodeFaulted:
		m.hearFaulted(n, l, e.NodeFaulted)
	case *controlpb.Report_NodeLeft:
		m.leave(n, l.boot)
	case *controlpb.Report_Facts:
		l.facts = e.Facts
	case *controlpb.Report_StageProgress:
		m.hearProgress(n, l, e.StageProgress)
	case *controlpb.Report_StageReady:
		m.hearStageReady(n, l, e.StageReady)
	case *controlpb.Report_StageFaulted:
		m.hearStageFaulted(n, l, e.StageFaulted)
	case *controlpb.Report_OfferChanged:
		m.hearOfferChanged(n, l, e.OfferChanged)
	case *controlpb.Report_StageTornDown:
		m.hearTornDown(n, l, e.StageTornDown)
	}
	return nil
}

func (m *mailbox) hearAvailable(n *node, l *life, a *controlpb.NodeAvailable) {
	l.available, l.faulted = a, nil
	told := event.NodeReportedAvailable{
		Node: n.ID, Label: n.label(), Boot: l.boot, Attempt: a.GetAttempt(),
		MemoryAvailable: a.GetMemoryAvailableBytes(), Worker: "proven",
	}
	if a.GetWorkerPolicy() == controlpb.WorkerPolicy_WORKER_POLICY_DEFERRED {
		told.Worker = "deferred"
	}
	if d := a.GetDevices(); len(d) > 0 {
		told.Device = d[0].GetDescription()
	}
	m.o.journal.Tell(told)
	m.stepGate(gate.NodeAvailable{Node: n.ID, Boot: l.boot, Attempt: a.GetAttempt()})
}

func (m *mailbox) hearFaulted(n *node, l *life, f *controlpb.NodeFaulted) {
	l.faulted, l.offer = f, nil
	why := f.GetFault().Typed()
	m.o.journal.Tell(event.NodeReportedFault{Node: n.ID, Label: n.label(), Boot: l.boot, Attempt: f.GetAttempt(), Fault: why})
	m.stepGate(gate.NodeFaulted{Node: n.ID, Boot: l.boot, Attempt: f.GetAttempt(), Fault: why})
	m.o.tracker.NodeLost(n.ID, why)
}

// of is whose stage a report is about, as the node claims: the core compares.
func of(n *node, l *life, runID []byte, attempt uint32) run.Of {
	return run.Of{Key: run.Key{Run: controlpb.Run(runID), Attempt: attempt}, Node: n.ID, Boot: l.boot}
}

func (m *mailbox) hearProgress(n *node, l *life, p *controlpb.StageProgress) {
	o := of(n, l, p.GetRunId(), p.GetAttempt())
	st := m.stageOf(o)
	if st == nil {
		return
	}
	st.progress = p
	m.o.journal.Tell(event.RunStageProgressed{
		Run: o.Run, Node: n.ID, Label: n.label(), Phase: p.GetPhase(),
		Done: p.GetDone(), Total: p.GetTotal(), Detail: p.GetDetail(),
	})
}

func (m *mailbox) hearStageReady(n *node, l *life, r *controlpb.StageReady) {
	o := of(n, l, r.GetRunId(), r.GetAttempt())
	st := m.stageOf(o)
	if st == nil {
		return
	}
	if got := r.GetLayers().Range(); got != [2]int{st.Start, st.End} {
		m.stepRun(run.StageFaulted{Of: o, Fault: fault.New(fault.RunPlanInvalid, component,
			"what", "a stage holds other layers than it was given")})
		return
	}
	if why := m.unrouted(n.ID); why != nil {
		m.stepRun(run.StageFaulted{Of: o, Fault: why})
		return
	}
	st.ready = r
	m.o.journal.Tell(event.RunStageReady{
		Run: o.Run, Node: n.ID, Label: n.label(), Layers: r.GetLayers().Range(),
		ResidentBytes: r.GetResidentBytes(), TokenMicros: r.GetTokenMicros(), Threads: int(r.GetThreads()),
	})
	m.stepRun(run.StageReady{Of: o})
}

func (m *mailbox) hearTornDown(n *node, l *life, t *controlpb.StageTornDown) {
	o := of(n, l, t.GetRunId(), t.GetAttempt())
	if m.stageOf(o) != nil {
		m.o.journal.Tell(event.RunStageFreed{Run: o.Run, Node: n.ID, Label: n.label()})
	}
	if m.holds(o) {
		m.after(symptomHold, run.TornDown{Of: o}) // after why it ended
		return
	}
	m.then(run.TornDown{Of: o})
}

// holds reports whether a fault of the stage still waits for its cause.
func (m *mailbox) holds(o run.Of) bool {
	return slices.ContainsFunc(m.later, func(d delayed) bool {
		f, ok := d.letter.(run.StageFaulted)
		return ok && f.Of == o
	})
}

// symptomHold is how long the fault of an edge waits for its cause: a neighbour
// sees its stream end before the node that lost its worker can say so.
const symptomHold = 600 * time.Millisecond

// symptoms are the faults by which a stage says that another has gone.
var symptoms = map[fault.Code]bool{
	fault.EdgeStreamDropped: true, fault.EdgeStreamEnded: true, fault.EdgeStreamRefused: true, fault.ArenaRingClosed: true,
}

func (m *mailbox) hearStageFaulted(n *node, l *life, f *controlpb.StageFaulted) {
	o := of(n, l, f.GetRunId(), f.GetAttempt())
	why := f.GetFault().Typed()
	if why.Node == "" {
		why.Node = n.label()
	}
	if m.stageOf(o) == nil {
		return
	}
	if m.run.Outcome == run.Open && ofAdmission(why.Code) {
		l.unfit = why
	}
	m.o.journal.Tell(event.RunStageFaulted{Run: o.Run, Node: n.ID, Label: n.label(), Fault: why})
	m.blame(o, why)
}

// noVerdicts are the tracker's answers that say nothing of a forward.
var noVerdicts = []fault.Code{
	fault.AdmitChallengesExhausted, fault.AdmitNodeHeld, fault.AdmitRateExceeded, fault.AdmitBookFull, fault.AdmitShardUnwanted, fault.AdmitRunEnded,
}

// ofAdmission reports whether a stage failed since its forward did, or since its
// report was not accepted; that it has to wait, or came too late, is neither.
func ofAdmission(c fault.Code) bool {
	if slices.Contains(noVerdicts, c) {
		return false
	}
	return strings.HasPrefix(string(c), "doctor.") || strings.HasPrefix(string(c), "admit.")
}

// blame tells the run of a stage's fault: at once, or once nothing has come
// that explains it better.
func (m *mailbox) blame(o run.Of, why *fault.Fault) {
	if symptoms[why.Code] {
		m.after(symptomHold, run.StageFaulted{Of: o, Fault: m.named(why)})
		return
	}
	m.stepRun(run.StageFaulted{Of: m.culprit(o, why), Fault: m.named(why)})
}

// culprit is the stage of the node that a fault names, such as the one at the
// other end of an edge; the stage that told of it where it names none.
func (m *mailbox) culprit(teller run.Of, why *fault.Fault) run.Of {
	for _, s := range m.lead.stages {
		if s.Node.Short() == why.Node {
			return m.lead.of(s)
		}
	}
	return teller
}

// named has a fault name its node as people know it.
func (m *mailbox) named(why *fault.Fault) *fault.Fault {
	for _, n := range m.nodes {
		if why != nil && n.ID.Short() == why.Node {
			named := *why
			named.Node = n.label()
			return &named
		}
	}
	return why
}
