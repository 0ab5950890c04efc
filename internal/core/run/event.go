package run

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Event is what the core is told.
type Event interface{ event() }

// Key says which run an answer is of. Attempt counts the runs that were formed
// for one request, from 1.
type Key struct {
	Run     id.RunID
	Attempt uint32
}

// Of says which node, at which of its boots, an answer is of.
type Of struct {
	Key
	Node id.NodeID
	Boot id.BootID
}

// Placed is a stage's node, at the boot that the pool was ready with.
type Placed struct {
	Node id.NodeID
	Boot id.BootID
}

// RunAsked: form this run. The pool is ready.
type RunAsked struct{ Key }

// PlanMade answers Plan: the stages in the order of the layers, and the
// readiness that they were planned from.
type PlanMade struct {
	Key
	Epoch  uint64
	Round  uint64
	Stages []Placed
}

// PlanFailed answers Plan: there is no sound plan.
type PlanFailed struct {
	Key
	Fault *fault.Fault
}

// CommitGranted answers Commit: the pool is this run's.
type CommitGranted struct{ Key }

// CommitRefused answers Commit: readiness was lost meanwhile.
type CommitRefused struct {
	Key
	Fault *fault.Fault
}

// StageAccepted answers Provision: the node has taken the order.
type StageAccepted struct{ Of }

// StageRefused answers Provision: the node has not taken the order.
type StageRefused struct {
	Of
	Fault *fault.Fault
}

// StageReady: the node's stage has proven itself and is joined to its
// neighbours.
type StageReady struct{ Of }

// StageFaulted: the node's stage has ended by a fault, or owes its progress.
type StageFaulted struct {
	Of
	Fault *fault.Fault
}

// NodeLost: the gate tells the first loss of a node that the run needs. Node is
// none where the orchestrator itself was starved. A loss that is told once the
// run has ended stands for the node's confirmation.
type NodeLost struct {
	Key
	Node  id.NodeID
	Fault *fault.Fault
}

// CompletionAsked: the run has done what it was formed for.
type CompletionAsked struct{ Key }

// StopAsked: somebody wants the run to end.
type StopAsked struct{ Key }

// TornDown answers TearDown: the node has freed everything of the run.
type TornDown struct{ Of }

// Tick: time has passed. It answers Wake.
type Tick struct{}

func (RunAsked) event()        {}
func (PlanMade) event()        {}
func (PlanFailed) event()      {}
func (CommitGranted) event()   {}
func (CommitRefused) event()   {}
func (StageAccepted) event()   {}
func (StageRefused) event()    {}
func (StageReady) event()      {}
func (StageFaulted) event()    {}
func (NodeLost) event()        {}
func (CompletionAsked) event() {}
func (StopAsked) event()       {}
func (TornDown) event()        {}
func (Tick) event()            {}

// Events returns one event of each kind, in the order of the page.
func Events() []Event {
	return []Event{
		RunAsked{},
		PlanMade{},
		PlanFailed{},
		CommitGranted{},
		CommitRefused{},
		StageAccepted{},
		StageRefused{},
		StageReady{},
		StageFaulted{},
		NodeLost{},
		CompletionAsked{},
		StopAsked{},
		TornDown{},
		Tick{},
	}
}

// Effect is what the owner of the state is to do, or to tell.
type Effect interface{ effect() }

// PhaseChanged: the one announcement of a phase.
type PhaseChanged struct{ From, To Phase }

// Plan asks for a plan on the pool that is ready.
type Plan struct{ Key }

// Commit asks the gate for the pool, by compare-and-set.
type Commit struct {
	Key
	Epoch  uint64
	Round  uint64
	Stages []Placed
}

// ReturnPool: the gate granted the pool to a run that had ended meanwhile; it
// is to take it back.
type ReturnPool struct{ Key }

// Provision orders a stage from its node. All are sent at once.
type Provision struct {
	Of
	Stage int // its place in the plan
}

// OpenServing: every stage is ready, requests may come.
type OpenServing struct{ Key }

// CloseServing: take no request any more and end those that run.
type CloseServing struct{ Key }

// RunCompleted is the outcome of a run that did its work.
type RunCompleted struct{ Key }

// RunStopped is the outcome of a run that was told to end.
type RunStopped struct{ Key }

// RunFaulted is the outcome of a run that failed, with the first cause. Node is
// none where no node is to blame.
type RunFaulted struct {
	Key
	Node  id.NodeID
	Fault *fault.Fault
}

// TearDown orders a node to free everything of the run.
type TearDown struct{ Of }

// TeardownOverdue: these nodes have not confirmed in time; the run is done
// without them.
type TeardownOverdue struct {
	Key
	Nodes []id.NodeID
	Fault *fault.Fault
}

// RunDone: nothing of the run is left to wait for. The gate takes the pool back.
type RunDone struct{ Key }

// Wake asks for a Tick at the instant At or soon after. The latest Wake
// replaces the former.
type Wake struct{ At time.Duration }

func (PhaseChanged) effect()    {}
func (Plan) effect()            {}
func (Commit) effect()          {}
func (ReturnPool) effect()      {}
func (Provision) effect()       {}
func (OpenServing) effect()     {}
func (CloseServing) effect()    {}
func (RunCompleted) effect()    {}
func (RunStopped) effect()      {}
func (RunFaulted) effect()      {}
func (TearDown) effect()        {}
func (TeardownOverdue) effect() {}
func (RunDone) effect()         {}
func (Wake) effect()            {}
