package orch

import (
	"context"
	"slices"
	"strings"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
	"muster/internal/wire/controlpb"
)

// Status is what is so, all of one instant.
type Status struct {
	Orchestrator id.NodeID     `json:"orchestrator"`
	Boot         id.BootID     `json:"boot"`
	Address      string        `json:"address"`
	Up           time.Duration `json:"up_ns"`
	Pool         PoolStatus    `json:"pool"`
	Model        ModelStatus   `json:"model"`
	Nodes        []NodeStatus  `json:"nodes"`
	Run          *RunStatus    `json:"run,omitempty"` // the latest
	Serving      bool          `json:"serving"`       // requests are taken
}

// PoolStatus is the gate's word.
type PoolStatus struct {
	Name     string        `json:"name"`
	Epoch    uint64        `json:"epoch"`
	Phase    string        `json:"phase"`
	Window   time.Duration `json:"window_ns"`
	Left     time.Duration `json:"left_ns"` // of the window, while it runs
	Blockers []Blocker     `json:"blockers"`
}

// Blocker is one thing that stands between the pool and a run.
type Blocker struct {
	Node id.NodeID `json:"node"` // none where it is no node's
	Name string    `json:"name"`
	What string    `json:"what"`
	Do   string    `json:"do"` // "" where only waiting helps
}

func (b Blocker) String() string { return gate.Blocker(b).String() }

// ModelStatus is the model that is served.
type ModelStatus struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Layers       int    `json:"layers"`
	Bytes        int64  `json:"bytes"`
	Published    bool   `json:"published"` // its digests are known
}

// NodeStatus is a candidate, as its boot that counts has told it.
type NodeStatus struct {
	Node            id.NodeID     `json:"node"`
	Name            string        `json:"name"`
	Boot            id.BootID     `json:"boot"`
	Addresses       []string      `json:"addresses"`
	Version         string        `json:"version"`
	Platform        string        `json:"platform"`
	Swim            string        `json:"swim"`
	Phase           string        `json:"phase"` // by its own word
	Available       bool          `json:"available"`
	Deferred        bool          `json:"deferred"` // its worker was not proven at boot
	MemoryAvailable uint64        `json:"memory_available"`
	MemoryTotal     uint64        `json:"memory_total"`
	Devices         []string      `json:"devices"`
	Answered        time.Duration `json:"answered_ns"` // ago; negative: never
	Facts           []FactStatus  `json:"facts"`
	Fault           *fault.Fault  `json:"fault,omitempty"`
	Offer           *OfferStatus  `json:"offer,omitempty"`
	Ended           *fault.Fault  `json:"ended,omitempty"` // its latest boot ended by what it offered
	Unfit           *fault.Fault  `json:"unfit,omitempty"` // why its latest stage failed its doctor or was not admitted
}

// FactStatus is one readiness fact of a node.
type FactStatus struct {
	Name   string        `json:"name"`
	State  string        `json:"state"` // pending, proven, deferred or failed
	Since  time.Duration `json:"since_ns"`
	Detail string        `json:"detail,omitempty"`
	Fault  *fault.Fault  `json:"fault,omitempty"`
}

// RunStatus is a run.
type RunStatus struct {
	Run     id.RunID      `json:"run"`
	Attempt uint32        `json:"attempt"`
	Phase   string        `json:"phase"`
	Since   time.Duration `json:"since_ns"` // ago
	Outcome string        `json:"outcome"`
	Fault   *fault.Fault  `json:"fault,omitempty"`
	Stages  []StageStatus `json:"stages"`
}

// StageStatus is a stage of a run.
type StageStatus struct {
	Node          id.NodeID `json:"node"`
	Name          string    `json:"name"`
	Layers        [2]int    `json:"layers"` // [start,end)
	Bytes         uint64    `json:"bytes"`  // by the plan
	Reason        string    `json:"reason"`
	Progress      string    `json:"progress"`
	Phase         string    `json:"phase"` // by the node's word
	Done          uint64    `json:"done"`
	Total         uint64    `json:"total"`
	ResidentBytes uint64    `json:"resident_bytes"`
	TokenMicros   int64     `json:"token_micros"`
}

// Status says what is so.
func (o *Orch) Status(ctx context.Context) (Status, error) {
	var s Status
	err := o.ask(ctx, func(m *mailbox) { s = m.status() })
	return s, err
}

func (m *mailbox) status() Status {
	now := m.o.now()
	f := m.o.model
	s := Status{
		Orchestrator: m.o.self, Boot: m.o.boot, Address: m.o.Address(), Up: now,
		Pool: PoolStatus{
			Name: m.pool.Name, Epoch: m.pool.Epoch, Phase: m.gate.Phase().String(),
			Window: m.o.figures.gate.Window, Left: m.gate.Left(now), Blockers: m.blockers(now),
		},
		Model:   ModelStatus{Name: f.name, Architecture: f.facts.Architecture, Layers: f.facts.Layers, Bytes: f.file.Size(), Published: m.published},
		Serving: m.o.session.Load() != nil && m.o.words.Load() != nil,
		Run:     m.runStatus(now),
	}
	swim := map[id.NodeID]string{}
	for _, row := range m.o.member.View().Rows {
		swim[row.Node] = row.State.String()
	}
	holders := m.holders()
	for _, n := range m.pool.Nodes {
		s.Nodes = append(s.Nodes, nodeStatus(m.nodes[n.ID], holders[n.ID], swim[n.ID], now))
	}
	return s
}

// blockers are the gate's, and the stages of former runs that are not freed.
func (m *mailbox) blockers(now time.Duration) []Blocker {
	all := []Blocker{}
	for _, b := range m.gate.Blockers(now) {
		all = append(all, Blocker(b))
	}
	if idle := m.run.Phase == run.Idle || m.run.Phase == run.Done; idle && !m.wanted {
		all = append(all, Blocker{What: "no run is formed: the last was the last one wanted", Do: "`muster form` has runs formed again"})
	}
	if b, held := m.holdBlocker(now); held {
		all = append(all, b)
	}
	all = append(all, m.offerBlockers()...)
	for _, s := range m.owed {
		if s.Run == m.run.Key.Run && m.run.Phase != run.Done {
			continue // it is being torn down
		}
		all = append(all, Blocker{
			Node: s.Node, Name: m.label(s.Node), What: "has not said that it freed run " + s.Run.Short(),
			Do: "it is asked again and again; start it anew if it does not come to it",
		})
	}
	return all
}

func nodeStatus(n *node, b gate.Booted, swim string, now time.Duration) NodeStatus {
	s := NodeStatus{Node: n.ID, Name: n.label(), Boot: b.Boot, Addresses: n.Addresses, Swim: swim, Answered: -1, Ended: n.ended}
	l := n.known(b.Boot)
	if l == nil || b.Boot.IsZero() {
		return s
	}
	s.Addresses, s.Version, s.Platform, s.Phase = slices.Clone(l.addresses), l.version, l.platform, l.phase
	if l.answer > 0 {
		s.Answered = now - l.answer
	}
	if a := l.available; a != nil {
		s.Available = l.faulted == nil
		s.Deferred = a.GetWorkerPolicy() == controlpb.WorkerPolicy_WORKER_POLICY_DEFERRED
		s.MemoryAvailable, s.MemoryTotal = a.GetMemoryAvailableBytes(), a.GetMemoryTotalBytes()
		for _, d := range a.GetDevices() {
			s.Devices = append(s.Devices, d.GetDescription())
		}
	}
	if l.faulted != nil {
		s.Fault = l.faulted.GetFault().Typed()
	}
	if s.Unfit = l.unfit; swim == gate.SwimAlive.String() {
		s.Offer = l.offer.status()
	}
	for _, f := range l.facts.GetFacts() {
		s.Facts = append(s.Facts, FactStatus{
			Name: f.GetName(), State: factState(f.GetState()), Detail: f.GetDetail(),
			Since: time.Duration(f.GetSinceMillis()) * time.Millisecond, Fault: f.GetFault().Typed(),
		})
	}
	return s
}

func factState(s controlpb.FactState_State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

func (m *mailbox) runStatus(now time.Duration) *RunStatus {
	if m.run.Phase == run.Idle {
		return nil
	}
	s := &RunStatus{
		Run: m.run.Key.Run, Attempt: m.run.Key.Attempt, Phase: m.run.Phase.String(), Since: now - m.run.Since,
		Outcome: m.run.Outcome.String(), Fault: m.run.Fault,
	}
	for i, p := range m.lead.stages {
		st := StageStatus{
			Node: p.Node, Name: p.Name, Layers: [2]int{p.Start, p.End}, Bytes: p.WeightBytes + p.KVBytes + p.ComputeBytes,
			Reason: p.Reason, Phase: p.progress.GetPhase(), Done: p.progress.GetDone(), Total: p.progress.GetTotal(),
			ResidentBytes: p.ready.GetResidentBytes(), TokenMicros: p.ready.GetTokenMicros(),
		}
		if i < len(m.run.Stages) {
			st.Progress = m.run.Stages[i].Progress.String()
		}
		s.Stages = append(s.Stages, st)
	}
	return s
}

// notServing says what stands in the way of a request.
func (o *Orch) notServing(ctx context.Context) error {
	s, err := o.Status(ctx)
	if err != nil {
		return err
	}
	what := "the pool is " + s.Pool.Phase
	switch {
	case s.Run != nil && s.Run.Phase != run.Done.String():
		what = "run " + s.Run.Run.Short() + " is " + s.Run.Phase
		if s.Run.Fault != nil {
			what += ", ended by " + s.Run.Fault.Error()
		}
	case len(s.Pool.Blockers) > 0:
		const most = 3
		words := make([]string, 0, most)
		for _, b := range s.Pool.Blockers[:min(most, len(s.Pool.Blockers))] {
			words = append(words, b.String())
		}
		what += ": " + strings.Join(words, " | ")
	}
	return fault.New(fault.OrchRequestRefused, component, "what", what)
}

// Events follows the journal, from the event after a sequence on; 0 begins with
// the oldest that is kept.
func (o *Orch) Events(since uint64) *Events {
	return &Events{journal: o.journal, ended: o.ctx.Done(), next: since}
}

// Runs are those that began last, the latest first.
func (o *Orch) Runs(ctx context.Context, most int) ([]store.Run, error) {
	return o.store.Runs(ctx, most)
}
