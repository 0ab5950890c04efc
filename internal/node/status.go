package node

import (
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Status is how a node is at one moment.
type Status struct {
	Node    id.NodeID    `json:"node,omitzero"` // none before its key is read
	Boot    id.BootID    `json:"boot"`
	Phase   string       `json:"phase"` // idle, proving, available, faulted, left
	Attempt uint32       `json:"attempt"`
	Facts   []FactStatus `json:"facts"`
	Fault   *fault.Fault `json:"fault,omitempty"` // what ended the latest attempt
	Stage   *StageStatus `json:"stage,omitempty"` // missing where none is held
	Offer   *OfferStatus `json:"offer,omitempty"` // missing where there is none, or a stage is held
}

// FactStatus is one line of the checklist.
type FactStatus struct {
	Name   string        `json:"name"`
	State  string        `json:"state"` // pending, proving, deferred, proven, failed
	Since  time.Duration `json:"since_ns"`
	Detail string        `json:"detail,omitempty"`
	Fault  *fault.Fault  `json:"fault,omitempty"`
	Hint   string        `json:"hint,omitempty"`
}

// OfferStatus is what the node's operator chose, while nothing of it is held.
type OfferStatus struct {
	Model  string        `json:"model"`
	Layers [2]int        `json:"layers"`          // [start,end)
	Fault  *fault.Fault  `json:"fault,omitempty"` // why it is not held
	Again  time.Duration `json:"again_ns"`        // to the next try; 0: none is planned
}

// StageStatus is the stage that the node holds.
type StageStatus struct {
	Offer   bool         `json:"offer,omitempty"` // its operator's choice, and no plan's
	Run     id.RunID     `json:"run"`
	Attempt uint32       `json:"attempt"`
	Model   string       `json:"model"`
	Layers  gguf.Range   `json:"layers"`
	Phase   string       `json:"phase"`
	Fault   *fault.Fault `json:"fault,omitempty"`
	In      edge.Figures `json:"in"`
	Out     edge.Figures `json:"out"`
	Owes    bool         `json:"owes"` // the worker has taken less than came in
}

// status is the mailbox's answer to a look.
func (n *node) status() Status {
	s := Status{Boot: n.bootID, Phase: n.boot.Phase.String(), Attempt: n.boot.Attempt, Fault: n.boot.Fault}
	if net := n.network.Load(); net != nil {
		s.Node = net.endpoint.ID()
	}
	now := n.now()
	for _, f := range boot.Facts() {
		line := n.boot.Facts[f]
		fact := FactStatus{Name: f.String(), State: line.Condition.String(), Since: now - line.Since, Detail: line.Detail, Fault: line.Fault}
		if line.Fault != nil {
			fact.Hint = line.Fault.Hint()
		}
		s.Facts = append(s.Facts, fact)
	}
	if o := n.cfg.Offer; o != nil && n.work == nil {
		s.Offer = &OfferStatus{Model: o.Model, Layers: o.Layers, Fault: n.offer.why}
		if n.offer.at > 0 {
			s.Offer.Again = max(0, n.offer.at-now)
		}
	}
	if w := n.work; w != nil {
		s.Stage = &StageStatus{
			Offer: w.order.Offer(), Run: w.order.Run, Attempt: w.order.Attempt, Model: w.asked.GetModel().GetName(), Layers: w.layers(),
			Phase: n.stage.Phase.String(), Fault: n.stage.Fault, In: w.inMeter.Read(), Out: w.outMeter.Read(),
			Owes: w.crew != nil && n.stage.Phase < stage.TearingDown && w.crew.owes(),
		}
	}
	return s
}

// pong is the status as it is answered to a ping.
func (s Status) pong(nonce uint64) *controlpb.Pong {
	p := &controlpb.Pong{Nonce: nonce, BootId: controlpb.ID(s.Boot), Phase: s.Phase}
	if s.Attempt > 0 {
		p.Facts = &controlpb.Facts{Attempt: s.Attempt}
		for _, f := range s.Facts {
			p.Facts.Facts = append(p.Facts.Facts, f.sent())
		}
	}
	if st := s.Stage; st != nil && !st.Offer {
		p.Stage = &controlpb.StageFigures{
			RunId: controlpb.ID(st.Run), Attempt: st.Attempt, Phase: st.Phase,
			In: figures(st.In), Out: figures(st.Out), Owes: st.Owes,
		}
	}
	return p
}

func (f FactStatus) sent() *controlpb.FactState {
	m := &controlpb.FactState{Name: f.Name, SinceMillis: f.Since.Milliseconds(), Detail: f.Detail, State: controlpb.FactState_STATE_PENDING}
	switch f.State {
	case boot.Proven.String():
		m.State = controlpb.FactState_STATE_PROVEN
	case boot.Deferred.String():
		m.State = controlpb.FactState_STATE_DEFERRED
	case boot.Failed.String():
		m.State, m.Fault = controlpb.FactState_STATE_FAILED, controlpb.FaultOf(f.Fault)
	}
	return m
}

func figures(f edge.Figures) *controlpb.EdgeFigures {
	return &controlpb.EdgeFigures{Records: f.Records, Bytes: f.Bytes, Phase: f.Phase.String(), StillMicros: controlpb.Micros(f.Still)}
}
