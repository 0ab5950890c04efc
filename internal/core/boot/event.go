package boot

import (
	"time"

	"muster/internal/fault"
)

// Event is what the core is told.
type Event interface{ event() }

// AttemptStarted: prove everything, under this number. Numbers rise within the
// life of a process; only an idle or faulted node starts.
type AttemptStarted struct{ Attempt uint32 }

// FactProven answers Prove: the thing was used and works.
type FactProven struct {
	Attempt uint32
	Fact    Fact
	Detail  string // for people, such as "udp 10.0.0.1:6878"
}

// FactFailed answers Prove, or says without being asked that the fact cannot
// be proven, such as a key file that is not readable.
type FactFailed struct {
	Attempt uint32
	Fact    Fact
	Fault   *fault.Fault
}

// ResourceLost: what stood behind a proven fact has gone.
type ResourceLost struct {
	Attempt uint32
	Fact    Fact
	Fault   *fault.Fault
}

// LeaveAsked: the node is to leave, by its operator or by a signal.
type LeaveAsked struct{}

// Tick: time has passed. It answers Wake.
type Tick struct{}

func (AttemptStarted) event() {}
func (FactProven) event()     {}
func (FactFailed) event()     {}
func (ResourceLost) event()   {}
func (LeaveAsked) event()     {}
func (Tick) event()           {}

// Events returns one event of each kind, in the order of the page.
func Events() []Event {
	return []Event{AttemptStarted{}, FactProven{}, FactFailed{}, ResourceLost{}, LeaveAsked{}, Tick{}}
}

// Effect is what the owner of the state is to do, or to tell.
type Effect interface{ effect() }

// PhaseChanged: the one announcement of a phase. Why is nil where no fault
// is the reason.
type PhaseChanged struct {
	From, To Phase
	Why      *fault.Fault
}

// Prove asks to prove a fact by using the thing, until the instant By.
type Prove struct {
	Attempt uint32
	Fact    Fact
	By      time.Duration
}

// FactChanged: a fact is proven, deferred or failed. Took is from the start of
// its proof.
type FactChanged struct {
	Attempt   uint32
	Fact      Fact
	Condition Condition
	Took      time.Duration
	Detail    string
	Fault     *fault.Fault
}

// NodeAvailable: every fact holds.
type NodeAvailable struct {
	Attempt        uint32
	WorkerDeferred bool
}

// OpenProvisioning withdraws the handler's objection that the node is not
// available; CloseProvisioning raises it again.
type OpenProvisioning struct{ Attempt uint32 }

// CloseProvisioning is the counterpart of OpenProvisioning.
type CloseProvisioning struct{ Attempt uint32 }

// BootFaulted: the attempt failed before the node was available.
type BootFaulted struct {
	Attempt uint32
	Fact    Fact
	Fault   *fault.Fault
}

// NodeFaulted: a node that was available has lost a resource.
type NodeFaulted struct {
	Attempt uint32
	Fact    Fact
	Fault   *fault.Fault
}

// NodeLeft: the node says that it leaves.
type NodeLeft struct{ Attempt uint32 }

// Release asks to call off what is still being proven and to free every
// resource of the attempt.
type Release struct{ Attempt uint32 }

// Wake asks for a Tick at the instant At or soon after. The latest Wake
// replaces the former.
type Wake struct{ At time.Duration }

func (PhaseChanged) effect()      {}
func (Prove) effect()             {}
func (FactChanged) effect()       {}
func (NodeAvailable) effect()     {}
func (OpenProvisioning) effect()  {}
func (CloseProvisioning) effect() {}
func (BootFaulted) effect()       {}
func (NodeFaulted) effect()       {}
func (NodeLeft) effect()          {}
func (Release) effect()           {}
func (Wake) effect()              {}
