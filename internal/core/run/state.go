package run

import (
	"time"

	"muster/internal/fault"
)

// Phase is how far the run has come.
type Phase uint8

// The phases, as in the package's diagram. The numbers are kept.
const (
	Idle         Phase = 0
	Planning     Phase = 10
	Committing   Phase = 20
	Provisioning Phase = 30
	Readying     Phase = 40
	Serving      Phase = 50
	TearingDown  Phase = 60
	Done         Phase = 70
)

// Phases returns every phase, in order.
func Phases() []Phase {
	return []Phase{Idle, Planning, Committing, Provisioning, Readying, Serving, TearingDown, Done}
}

func (p Phase) String() string {
	switch p {
	case Planning:
		return "planning"
	case Committing:
		return "committing"
	case Provisioning:
		return "provisioning"
	case Readying:
		return "readying"
	case Serving:
		return "serving"
	case TearingDown:
		return "tearing down"
	case Done:
		return "done"
	default:
		return "idle"
	}
}

// Outcome is how the run ended. It is written once.
type Outcome uint8

// The outcomes. The numbers are kept.
const (
	Open      Outcome = 0
	Completed Outcome = 10
	Stopped   Outcome = 20
	Faulted   Outcome = 30
)

func (o Outcome) String() string {
	switch o {
	case Completed:
		return "completed"
	case Stopped:
		return "stopped"
	case Faulted:
		return "faulted"
	default:
		return "open"
	}
}

// Progress is how far a stage has come, as its node tells. It only grows.
type Progress uint8

// The progress of a stage. The numbers are kept.
const (
	Planned  Progress = 0
	Ordered  Progress = 10
	Accepted Progress = 20
	Ready    Progress = 30
	Freed    Progress = 40 // torn down, or its node was lost
)

func (p Progress) String() string {
	switch p {
	case Ordered:
		return "ordered"
	case Accepted:
		return "accepted"
	case Ready:
		return "ready"
	case Freed:
		return "freed"
	default:
		return "planned"
	}
}

// Stage is one place in the plan.
type Stage struct {
	Placed
	Progress Progress
}

// Settings are the deadlines of the phases; not positive means the usual one.
type Settings struct {
	Planning, Committing, Provisioning, Readying, TearingDown time.Duration
}

// within is the deadline of a phase and the fault of missing it; no code means
// that the phase has none.
func (s Settings) within(p Phase) (time.Duration, fault.Code) {
	or := func(d, usual time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return usual
	}
	switch p {
	case Planning:
		return or(s.Planning, 10*time.Second), fault.RunPlanOverdue
	case Committing:
		return or(s.Committing, 2*time.Second), fault.RunCommitOverdue
	case Provisioning:
		return or(s.Provisioning, 5*time.Second), fault.RunProvisionOverdue
	case Readying:
		return or(s.Readying, 10*time.Minute), fault.RunReadinessOverdue
	case TearingDown:
		return or(s.TearingDown, 10*time.Second), fault.RunTeardownOverdue
	default:
		return 0, ""
	}
}

// State is a value: a copy is a snapshot, Stages is never written to.
type State struct {
	Settings Settings
	Phase    Phase
	Key      Key
	Stages   []Stage // of the plan, once there is one
	Outcome  Outcome
	Fault    *fault.Fault  // the first cause; nil unless faulted
	Since    time.Duration // instant at which the phase began
	Due      time.Duration // the phase's deadline; 0 means none
	Now      time.Duration
}

// New returns a run that nobody has asked for yet.
func New(s Settings) State { return State{Settings: s} }
