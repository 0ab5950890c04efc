package boot

import (
	"fmt"
	"time"

	"muster/internal/fault"
)

// Phase is how far the node has come.
type Phase uint8

// The phases, as in the package's diagram. The numbers are kept.
const (
	Idle      Phase = 0
	InProof   Phase = 10
	Available Phase = 20
	Faulted   Phase = 30
	Left      Phase = 40
)

// Phases returns every phase, in order.
func Phases() []Phase { return []Phase{Idle, InProof, Available, Faulted, Left} }

func (p Phase) String() string {
	switch p {
	case InProof:
		return "proving"
	case Available:
		return "available"
	case Faulted:
		return "faulted"
	case Left:
		return "left"
	default:
		return "idle"
	}
}

// FactState is one line of the checklist.
type FactState struct {
	Condition Condition
	Since     time.Duration // instant of the latest change of the condition
	Due       time.Duration // instant by which the proof is owed; while proving
	Detail    string
	Fault     *fault.Fault // while failed
}

// State is a value: a copy is a snapshot.
type State struct {
	Settings Settings
	Phase    Phase
	Attempt  uint32 // the latest; 0 before the first
	Facts    [factCount]FactState
	Fault    *fault.Fault // what ended the latest attempt; nil unless faulted
	Now      time.Duration
}

// New returns an idle node.
func New(s Settings) State { return State{Settings: s} }

// turn is one step in the making.
type turn struct {
	State
	effects []Effect
}

// Step lets time pass until now, takes the event and returns the next state
// with what is to be done, in order. An instant before the latest is taken for
// that one. An event that means nothing here changes nothing.
func Step(s State, e Event, now time.Duration) (State, []Effect) {
	t := turn{State: s}
	t.Now = max(s.Now, now)
	t.expire()
	switch e := e.(type) {
	case AttemptStarted:
		t.start(e)
	case FactProven:
		t.proven(e)
	case FactFailed:
		t.failed(e.Attempt, e.Fact, e.Fault)
	case ResourceLost:
		t.lost(e)
	case LeaveAsked:
		t.leave()
	case Tick:
	}
	t.askWake(s, e)
	return t.State, t.effects
}

func (t *turn) emit(e Effect) { t.effects = append(t.effects, e) }

// become is the one place that writes the phase.
func (t *turn) become(p Phase, why *fault.Fault) {
	t.emit(PhaseChanged{From: t.Phase, To: p, Why: why})
	t.Phase = p
}

func (t *turn) start(e AttemptStarted) {
	if t.Phase != Idle && t.Phase != Faulted || e.Attempt <= t.Attempt {
		return
	}
	t.Attempt, t.Fault = e.Attempt, nil
	for f := range t.Facts {
		t.Facts[f] = FactState{Since: t.Now}
	}
	t.become(InProof, nil)
	if t.Settings.DeferWorker {
		t.settle(Worker, Deferred, "started by its first stage", nil)
	}
	t.proveReady()
}

// proveReady starts every proof whose needs hold.
func (t *turn) proveReady() {
	for _, f := range Facts() {
		if t.Facts[f].Condition != Pending || !t.needsHold(f) {
			continue
		}
		due := t.Now + t.Settings.within(f)
		t.Facts[f] = FactState{Condition: Proving, Since: t.Now, Due: due}
		t.emit(Prove{Attempt: t.Attempt, Fact: f, By: due})
	}
}

func (t *turn) needsHold(f Fact) bool {
	for _, n := range f.Needs() {
		if !t.Facts[n].Condition.Holds() {
			return false
		}
	}
	return true
}

// settle gives a fact its condition and announces it.
func (t *turn) settle(f Fact, c Condition, detail string, why *fault.Fault) {
	took := t.Now - t.Facts[f].Since
	t.Facts[f] = FactState{Condition: c, Since: t.Now, Detail: detail, Fault: why}
	t.emit(FactChanged{Attempt: t.Attempt, Fact: f, Condition: c, Took: took, Detail: detail, Fault: why})
}

// ofThisAttempt reports whether an answer is to this attempt, which still runs.
func (t *turn) ofThisAttempt(attempt uint32, f Fact) bool {
	return attempt == t.Attempt && f < factCount && (t.Phase == InProof || t.Phase == Available)
}

func (t *turn) proven(e FactProven) {
	if !t.ofThisAttempt(e.Attempt, e.Fact) {
		return
	}
	if c := t.Facts[e.Fact].Condition; c != Proving && c != Deferred {
		return
	}
	t.settle(e.Fact, Proven, e.Detail, nil)
	if t.Phase != InProof {
		return // a deferred worker was proven by its first stage
	}
	if e.Fact == Provisioning {
		t.become(Available, nil)
		t.emit(NodeAvailable{Attempt: t.Attempt, WorkerDeferred: t.Facts[Worker].Condition == Deferred})
		t.emit(OpenProvisioning{Attempt: t.Attempt})
		return
	}
	t.proveReady()
}

// lost is a fault of a fact that was held; of any other there is nothing to lose.
func (t *turn) lost(e ResourceLost) {
	if e.Fact < factCount && t.Facts[e.Fact].Condition == Proven {
		t.failed(e.Attempt, e.Fact, e.Fault)
	}
}

// failed ends the attempt. A deferred worker cannot fail it: its stage does.
func (t *turn) failed(attempt uint32, f Fact, why *fault.Fault) {
	if !t.ofThisAttempt(attempt, f) || t.Facts[f].Condition == Deferred {
		return
	}
	if why == nil {
		why = fault.New(fault.InternalUnexpected, f.String())
	}
	t.settle(f, Failed, "", why)
	t.callOff()
	was := t.Phase
	t.Fault = why
	t.become(Faulted, why)
	if was == Available {
		t.emit(CloseProvisioning{Attempt: t.Attempt})
		t.emit(NodeFaulted{Attempt: t.Attempt, Fact: f, Fault: why})
	} else {
		t.emit(BootFaulted{Attempt: t.Attempt, Fact: f, Fault: why})
	}
	t.emit(Release{Attempt: t.Attempt})
}

// callOff makes facts still being proven pending: Release ends their proofs.
func (t *turn) callOff() {
	for f := range t.Facts {
		if t.Facts[f].Condition == Proving {
			t.Facts[f] = FactState{Since: t.Now}
		}
	}
}

func (t *turn) leave() {
	if t.Phase == Left {
		return
	}
	was := t.Phase
	t.callOff()
	t.become(Left, nil)
	if was == Available {
		t.emit(CloseProvisioning{Attempt: t.Attempt})
	}
	t.emit(NodeLeft{Attempt: t.Attempt})
	if was == InProof || was == Available {
		t.emit(Release{Attempt: t.Attempt})
	}
}

// expire ends the attempt by the proof that has been overdue for longest.
func (t *turn) expire() {
	late := factCount
	for _, f := range Facts() {
		s := t.Facts[f]
		if s.Condition == Proving && t.Now >= s.Due && (late == factCount || s.Due < t.Facts[late].Due) {
			late = f
		}
	}
	if late < factCount {
		t.failed(t.Attempt, late, fault.New(about[late].overdue, late.String(), "waited", seconds(t.Settings.within(late))))
	}
}

// nextDue is the earliest deadline, 0 where none runs.
func (s State) nextDue() time.Duration {
	var next time.Duration
	for _, f := range s.Facts {
		if f.Condition == Proving && (next == 0 || f.Due < next) {
			next = f.Due
		}
	}
	return next
}

// askWake asks for the next tick where the earliest deadline is another than
// before, or a tick has been used up before it.
func (t *turn) askWake(before State, e Event) {
	_, ticked := e.(Tick)
	if next := t.nextDue(); next != 0 && (ticked || next != before.nextDue()) {
		t.emit(Wake{At: next})
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
