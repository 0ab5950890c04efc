package event

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// PoolDefined: the operator's pool is now this.
type PoolDefined struct {
	Pool  string `json:"pool"`
	Epoch uint64 `json:"epoch"`
	Nodes int    `json:"nodes"`
}

// PoolPhaseChanged: the gate has come to another phase.
type PoolPhaseChanged struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// PoolBecameReady: every candidate has answered the closing question.
type PoolBecameReady struct {
	Epoch uint64 `json:"epoch"`
	Nodes int    `json:"nodes"`
}

// PoolReadinessLost: readiness was lost before a plan was committed.
type PoolReadinessLost struct {
	Fault *fault.Fault `json:"fault"`
}

// PoolFormationEnded: the formation was given up.
type PoolFormationEnded struct {
	Fault *fault.Fault `json:"fault"`
}

// NodeAcknowledged: a node's id and boot are known to the orchestrator.
type NodeAcknowledged struct {
	Node    id.NodeID `json:"node"`
	Label   string    `json:"name"` // the operator's, or its short id
	Boot    id.BootID `json:"boot"`
	Address string    `json:"address"`
}

// NodeRefused: a node said hello and was sent away.
type NodeRefused struct {
	Node  id.NodeID    `json:"node"`
	Boot  id.BootID    `json:"boot"`
	Fault *fault.Fault `json:"fault"`
}

// NodeDialledBack: a handshake at the node's address met its key.
type NodeDialledBack struct {
	Node    id.NodeID `json:"node"`
	Label   string    `json:"name"`
	Address string    `json:"address"`
}

// NodeReportedAvailable: a boot attempt of a node has proven every fact.
type NodeReportedAvailable struct {
	Node            id.NodeID `json:"node"`
	Label           string    `json:"name"`
	Boot            id.BootID `json:"boot"`
	Attempt         uint32    `json:"attempt"`
	MemoryAvailable uint64    `json:"memory_available"` // bytes
	Device          string    `json:"device"`           // the first; "" where none was told
	Worker          string    `json:"worker"`           // proven or deferred
}

// NodeReportedFault: a boot attempt of a node has failed, or lost a resource.
type NodeReportedFault struct {
	Node    id.NodeID    `json:"node"`
	Label   string       `json:"name"`
	Boot    id.BootID    `json:"boot"`
	Attempt uint32       `json:"attempt"`
	Fault   *fault.Fault `json:"fault"`
}

// NodeReportedLeaving: a node's process is ending as it was asked to.
type NodeReportedLeaving struct {
	Node  id.NodeID `json:"node"`
	Label string    `json:"name"`
	Boot  id.BootID `json:"boot"`
}

// NodeBootReplaced: another boot of a node counts from now on.
type NodeBootReplaced struct {
	Node   id.NodeID `json:"node"`
	Label  string    `json:"name"`
	Boot   id.BootID `json:"boot"`
	Former id.BootID `json:"former"`
}

// ModelPublished: the model's digests are known and nodes can read it.
type ModelPublished struct {
	Model    string `json:"model"`
	Revision string `json:"revision"`
	Bytes    int64  `json:"bytes"`
}

// TokenizerStarted: the orchestrator can turn text into tokens.
type TokenizerStarted struct {
	PID    int `json:"pid"`
	Tokens int `json:"tokens"` // of the vocabulary
}

// TokenizerLost: the tokenizer's process has ended; it is started again.
type TokenizerLost struct {
	Fault *fault.Fault `json:"fault"`
}

// PlannedStage is one place of a plan.
type PlannedStage struct {
	Node   id.NodeID `json:"node"`
	Label  string    `json:"name"`
	Layers [2]int    `json:"layers"` // [start,end)
	Bytes  uint64    `json:"bytes"`  // of memory, by the plan; 0 where it does not say
	Reason string    `json:"reason,omitempty"`
}

// RunPlanned: a run has a plan.
type RunPlanned struct {
	Run    id.RunID       `json:"run"`
	Stages []PlannedStage `json:"stages"`
}

// RunPhaseChanged: a run has come to another phase.
type RunPhaseChanged struct {
	Run  id.RunID `json:"run"`
	From string   `json:"from"`
	To   string   `json:"to"`
}

// RunStageProgressed: a stage of a run has come further in one of its phases.
type RunStageProgressed struct {
	Run    id.RunID  `json:"run"`
	Node   id.NodeID `json:"node"`
	Label  string    `json:"name"`
	Phase  string    `json:"phase"`
	Done   uint64    `json:"done"`
	Total  uint64    `json:"total"` // 0: not known
	Detail string    `json:"detail,omitempty"`
}

// RunStageReady: a stage of a run has run a forward, and its edges stand.
type RunStageReady struct {
	Run           id.RunID  `json:"run"`
	Node          id.NodeID `json:"node"`
	Label         string    `json:"name"`
	Layers        [2]int    `json:"layers"` // [start,end)
	ResidentBytes uint64    `json:"resident_bytes"`
	TokenMicros   int64     `json:"token_micros"` // a decode of one token
	Threads       int       `json:"threads"`
}

// RunStageFaulted: a stage of a run has ended by a fault.
type RunStageFaulted struct {
	Run   id.RunID     `json:"run"`
	Node  id.NodeID    `json:"node"`
	Label string       `json:"name"`
	Fault *fault.Fault `json:"fault"`
}

// RunStageFreed: nothing of a stage is left on its node.
type RunStageFreed struct {
	Run   id.RunID  `json:"run"`
	Node  id.NodeID `json:"node"`
	Label string    `json:"name"`
}

// RunServed: every stage is joined to its neighbours and requests are taken.
type RunServed struct {
	Run  id.RunID      `json:"run"`
	Took time.Duration `json:"took_ns"` // since the pool was ready
}

// RunEnded: a run has its one outcome.
type RunEnded struct {
	Run     id.RunID     `json:"run"`
	Outcome string       `json:"outcome"`         // completed, stopped or faulted
	Node    id.NodeID    `json:"node"`            // whose loss it was; none where nobody's
	Fault   *fault.Fault `json:"fault,omitempty"` // the first cause
}

// RunTeardownOverdue: nodes have not said in time that they freed a run.
type RunTeardownOverdue struct {
	Run   id.RunID     `json:"run"`
	Fault *fault.Fault `json:"fault"`
}

// EventsDropped: events came faster than they could be written.
type EventsDropped struct {
	Fault *fault.Fault `json:"fault"`
}

// Name implements Event.
func (PoolDefined) Name() string { return "pool.defined" }

// Name implements Event.
func (PoolPhaseChanged) Name() string { return "pool.phase_changed" }

// Name implements Event.
func (PoolBecameReady) Name() string { return "pool.became_ready" }

// Name implements Event.
func (PoolReadinessLost) Name() string { return "pool.readiness_lost" }

// Name implements Event.
func (PoolFormationEnded) Name() string { return "pool.formation_ended" }

// Name implements Event.
func (NodeAcknowledged) Name() string { return "pool.node_acknowledged" }

// Name implements Event.
func (NodeRefused) Name() string { return "pool.node_refused" }

// Name implements Event.
func (NodeDialledBack) Name() string { return "pool.node_dialled_back" }

// Name implements Event.
func (NodeReportedAvailable) Name() string { return "pool.node_available" }

// Name implements Event.
func (NodeReportedFault) Name() string { return "pool.node_faulted" }

// Name implements Event.
func (NodeReportedLeaving) Name() string { return "pool.node_left" }

// Name implements Event.
func (NodeBootReplaced) Name() string { return "pool.node_boot_replaced" }

// Name implements Event.
func (ModelPublished) Name() string { return "model.published" }

// Name implements Event.
func (TokenizerStarted) Name() string { return "tokenizer.started" }

// Name implements Event.
func (TokenizerLost) Name() string { return "tokenizer.lost" }

// Name implements Event.
func (RunPlanned) Name() string { return "run.planned" }

// Name implements Event.
func (RunPhaseChanged) Name() string { return "run.phase_changed" }

// Name implements Event.
func (RunStageProgressed) Name() string { return "run.stage_progressed" }

// Name implements Event.
func (RunStageReady) Name() string { return "run.stage_ready" }

// Name implements Event.
func (RunStageFaulted) Name() string { return "run.stage_faulted" }

// Name implements Event.
func (RunStageFreed) Name() string { return "run.stage_freed" }

// Name implements Event.
func (RunServed) Name() string { return "run.served" }

// Name implements Event.
func (RunEnded) Name() string { return "run.ended" }

// Name implements Event.
func (RunTeardownOverdue) Name() string { return "run.teardown_overdue" }

// Name implements Event.
func (EventsDropped) Name() string { return "journal.events_dropped" }
