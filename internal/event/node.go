package event

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// BootStarted: a node proves every fact, for the first time or anew.
type BootStarted struct {
	Boot    id.BootID `json:"boot"`
	Attempt uint32    `json:"attempt"`
}

// FactProven: one of the facts that availability rests on holds.
type FactProven struct {
	Boot     id.BootID     `json:"boot"`
	Attempt  uint32        `json:"attempt"`
	Fact     string        `json:"fact"`
	Took     time.Duration `json:"took_ns"`
	Detail   string        `json:"detail"`
	Deferred bool          `json:"deferred,omitempty"` // by policy, and not proven
}

// FactFailed: a fact could not be proven, or was lost.
type FactFailed struct {
	Boot    id.BootID     `json:"boot"`
	Attempt uint32        `json:"attempt"`
	Fact    string        `json:"fact"`
	Took    time.Duration `json:"took_ns"`
	Fault   *fault.Fault  `json:"fault"`
}

// NodeBecameAvailable: every fact holds, and the node takes a stage.
type NodeBecameAvailable struct {
	Boot           id.BootID `json:"boot"`
	Attempt        uint32    `json:"attempt"`
	WorkerDeferred bool      `json:"worker_deferred"`
}

// NodeFaulted: a boot attempt has ended by its first fault.
type NodeFaulted struct {
	Boot    id.BootID    `json:"boot"`
	Attempt uint32       `json:"attempt"`
	Fact    string       `json:"fact"`
	Fault   *fault.Fault `json:"fault"`
}

// NodeLeft: the node ends as it was asked to.
type NodeLeft struct {
	Boot   id.BootID `json:"boot"`
	Reason string    `json:"reason"`
}

// StagePhaseChanged: the stage of a node has come further.
type StagePhaseChanged struct {
	Run     id.RunID     `json:"run"`
	Attempt uint32       `json:"attempt"`
	Former  string       `json:"former"`
	Phase   string       `json:"phase"`
	Fault   *fault.Fault `json:"fault,omitempty"` // why, where that is a fault
}

// StageTornDown: nothing of a stage is left on its node.
type StageTornDown struct {
	Run     id.RunID `json:"run"`
	Attempt uint32   `json:"attempt"`
}

// StageTeardownDelayed: a part of a teardown is overdue; it is asked for again.
type StageTeardownDelayed struct {
	Run   id.RunID     `json:"run"`
	Fault *fault.Fault `json:"fault"`
}

// EdgeRefused: a stream came that no stage here expects.
type EdgeRefused struct {
	Fault *fault.Fault `json:"fault"`
}

// NodeStatusUnwritten: the node's status could not be kept in its folder. It is
// told once, until it could be again.
type NodeStatusUnwritten struct {
	Boot  id.BootID    `json:"boot"`
	Fault *fault.Fault `json:"fault"`
}

// Name implements Event.
func (BootStarted) Name() string { return "node.boot_started" }

// Name implements Event.
func (FactProven) Name() string { return "node.boot.fact_proven" }

// Name implements Event.
func (FactFailed) Name() string { return "node.boot.fact_failed" }

// Name implements Event.
func (NodeBecameAvailable) Name() string { return "node.became_available" }

// Name implements Event.
func (NodeFaulted) Name() string { return "node.faulted" }

// Name implements Event.
func (NodeLeft) Name() string { return "node.left" }

// Name implements Event.
func (StagePhaseChanged) Name() string { return "stage.phase_changed" }

// Name implements Event.
func (StageTornDown) Name() string { return "stage.torn_down" }

// Name implements Event.
func (StageTeardownDelayed) Name() string { return "stage.teardown_delayed" }

// Name implements Event.
func (EdgeRefused) Name() string { return "edge.refused" }

// Name implements Event.
func (NodeStatusUnwritten) Name() string { return "node.status_unwritten" }
