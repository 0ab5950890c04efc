package stage

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Phase is how far the stage has come.
type Phase uint8

// The phases, as in the package's diagram. The numbers are kept.
const (
	Empty       Phase = 0
	Preparing   Phase = 10
	Fetching    Phase = 20
	Loading     Phase = 30
	Admitting   Phase = 35
	Offered     Phase = 38
	Connecting  Phase = 40
	Ready       Phase = 50
	Serving     Phase = 60
	TearingDown Phase = 70
	Gone        Phase = 80
)

// Phases returns every phase, in order.
func Phases() []Phase {
	return []Phase{Empty, Preparing, Fetching, Loading, Admitting, Offered, Connecting, Ready, Serving, TearingDown, Gone}
}

func (p Phase) String() string {
	switch p {
	case Preparing:
		return "preparing"
	case Fetching:
		return "fetching"
	case Loading:
		return "loading"
	case Admitting:
		return "admitting"
	case Offered:
		return "offered"
	case Connecting:
		return "connecting"
	case Ready:
		return "ready"
	case Serving:
		return "serving"
	case TearingDown:
		return "tearing down"
	case Gone:
		return "gone"
	default:
		return "empty"
	}
}

// Part is one part of the teardown.
type Part uint8

// The parts, in their order. The numbers are kept.
const (
	QuiescePumps   Part = 10 // nothing moves between rings and edges any more
	UninstallRings Part = 20 // no end is attached
	StopWorker     Part = 30 // it has let go of the slice, or has been reaped
	ReleaseLeases  Part = 40 // the memory is free
)

// Parts returns every part, in order.
func Parts() []Part { return []Part{QuiescePumps, UninstallRings, StopWorker, ReleaseLeases} }

func (s Part) String() string {
	switch s {
	case QuiescePumps:
		return "quiesce pumps"
	case UninstallRings:
		return "uninstall rings"
	case StopWorker:
		return "stop worker"
	case ReleaseLeases:
		return "release leases"
	default:
		return "none"
	}
}

// after returns the step that follows, 0 after the last.
func (s Part) after() Part {
	for _, next := range Parts() {
		if next > s {
			return next
		}
	}
	return 0
}

// Settings are the deadlines of the phases; not positive means the usual one.
type Settings struct {
	Preparing  time.Duration
	Fetching   time.Duration // without a byte of progress
	Loading    time.Duration
	Admitting  time.Duration
	Connecting time.Duration
	Ready      time.Duration // for the other stages to be ready too
	TakingDown time.Duration // of one part
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
	case Preparing:
		return or(s.Preparing, 30*time.Second), fault.StagePreparationOverdue
	case Fetching:
		return or(s.Fetching, time.Minute), fault.StageWeightsOverdue
	case Loading:
		return or(s.Loading, 10*time.Minute), fault.StageLoadOverdue
	case Admitting:
		return or(s.Admitting, 5*time.Minute), fault.StageAdmissionOverdue
	case Connecting:
		return or(s.Connecting, 10*time.Minute), fault.StageEdgesOverdue
	case Ready:
		return or(s.Ready, 10*time.Minute), fault.StageServingOverdue
	case TearingDown:
		return or(s.TakingDown, 5*time.Second), fault.StageTeardownOverdue
	default:
		return 0, ""
	}
}

// State is a value: a copy is a snapshot.
type State struct {
	Settings  Settings
	Boot      id.BootID // of this process
	Available bool
	Phase     Phase
	Order     Order // the latest; it stays while gone
	Next      Order // accepted while an offer is held; none where nothing waits
	Held      bool  // Next is of just the shard that is offered
	Joined    Side  // sides whose edge is up, as a set
	Fetched   uint64
	Part      Part          // of the teardown, while it lasts
	Late      bool          // a part of this teardown was overdue
	Ended     [16]Order     // the latest that were torn down, the newest at Ends-1, modulo
	Ends      uint          // how many were
	Fault     *fault.Fault  // what ended the stage; nil where it was told to end
	Since     time.Duration // instant at which the phase began
	Due       time.Duration // the deadline in force; 0 means none
	Now       time.Duration
}

// ended reports whether an order was torn down: a word of it that was delayed
// must not begin it anew.
func (s State) ended(o Order) bool {
	for _, e := range s.Ended {
		if e == o {
			return true
		}
	}
	return false
}

// New returns the controller of a node's boot, without a stage and not
// available.
func New(s Settings, boot id.BootID) State { return State{Settings: s, Boot: boot} }
