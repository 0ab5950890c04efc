package run

import (
	"fmt"
	"slices"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

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
	t.Stages = slices.Clone(s.Stages)
	t.expire()
	t.take(e)
	if _, ticked := e.(Tick); t.Due != 0 && (ticked || t.Due != s.Due) {
		t.emit(Wake{At: t.Due})
	}
	return t.State, t.effects
}

func (t *turn) take(e Event) {
	switch e := e.(type) {
	case RunAsked:
		t.ask(e)
	case PlanMade:
		t.plan(e)
	case PlanFailed:
		t.faultIn(Planning, e.Key, e.Fault)
	case CommitGranted:
		t.granted(e)
	case CommitRefused:
		t.faultIn(Committing, e.Key, e.Fault)
	case StageAccepted:
		t.advance(e.Of, Accepted)
	case StageRefused:
		t.stageFault(e.Of, e.Fault)
	case StageReady:
		t.advance(e.Of, Ready)
	case StageFaulted:
		t.stageFault(e.Of, e.Fault)
	case NodeLost:
		t.lose(e)
	case CompletionAsked:
		if e.Key == t.Key && t.Phase == Serving {
			t.conclude(Completed, id.NodeID{}, nil)
		}
	case StopAsked:
		if e.Key == t.Key {
			t.conclude(Stopped, id.NodeID{}, nil)
		}
	case TornDown:
		t.freed(e)
	case Tick:
	}
}

func (t *turn) emit(e Effect) { t.effects = append(t.effects, e) }

// become is the one place that writes the phase, and with it the deadline.
func (t *turn) become(p Phase) {
	t.emit(PhaseChanged{From: t.Phase, To: p})
	t.Phase, t.Since, t.Due = p, t.Now, 0
	if d, _ := t.Settings.within(p); d > 0 {
		t.Due = t.Now + d
	}
}

func (t *turn) ask(e RunAsked) {
	if t.Phase != Idle || e.Run.IsZero() || e.Attempt == 0 {
		return
	}
	t.Key = e.Key
	t.become(Planning)
	t.emit(Plan{t.Key})
}

func (t *turn) plan(e PlanMade) {
	if t.Phase != Planning || e.Key != t.Key {
		return
	}
	if what := unsound(e.Stages); what != "" {
		t.conclude(Faulted, id.NodeID{}, fault.New(fault.RunPlanInvalid, component, "what", what))
		return
	}
	t.Stages = make([]Stage, len(e.Stages))
	for i, p := range e.Stages {
		t.Stages[i] = Stage{Placed: p}
	}
	t.become(Committing)
	t.emit(Commit{Key: t.Key, Epoch: e.Epoch, Round: e.Round, Stages: slices.Clone(e.Stages)})
}

// unsound says what is wrong with a plan's places, "" where nothing is.
func unsound(stages []Placed) string {
	if len(stages) == 0 {
		return "it has no stage"
	}
	for i, p := range stages {
		if p.Node.IsZero() || p.Boot.IsZero() {
			return fmt.Sprintf("stage %d has no node", i)
		}
		for _, q := range stages[:i] {
			if q.Node == p.Node {
				return p.Node.Short() + " has two stages"
			}
		}
	}
	return ""
}

func (t *turn) granted(e CommitGranted) {
	if e.Key != t.Key {
		return
	}
	if t.Phase == Done && !t.ordered() {
		t.emit(ReturnPool{t.Key})
	}
	if t.Phase != Committing {
		return
	}
	t.become(Provisioning)
	for i := range t.Stages {
		t.Stages[i].Progress = Ordered
		t.emit(Provision{Of: t.of(i), Stage: i})
	}
}

// ordered reports whether any node was asked to provision.
func (t *turn) ordered() bool {
	return slices.ContainsFunc(t.Stages, func(s Stage) bool { return s.Progress >= Ordered })
}

func (t *turn) of(i int) Of {
	return Of{Key: t.Key, Node: t.Stages[i].Node, Boot: t.Stages[i].Boot}
}

// find returns the stage that an answer is of, or -1: of another run, attempt,
// node or boot, or never ordered.
func (t *turn) find(o Of) int {
	if o.Key != t.Key {
		return -1
	}
	return slices.IndexFunc(t.Stages, func(s Stage) bool {
		return s.Node == o.Node && s.Boot == o.Boot && s.Progress >= Ordered
	})
}

// starting reports whether stages are on their way to ready.
func (t *turn) starting() bool { return t.Phase == Provisioning || t.Phase == Readying }

// advance takes a stage's progress. A node may be ready before another has
// accepted.
func (t *turn) advance(o Of, p Progress) {
	i := t.find(o)
	if i < 0 || !t.starting() || t.Stages[i].Progress >= p {
		return
	}
	t.Stages[i].Progress = p
	if t.Phase == Provisioning && t.all(Accepted) {
		t.become(Readying)
	}
	if t.Phase == Readying && t.all(Ready) {
		t.become(Serving)
		t.emit(OpenServing{t.Key})
	}
}

func (t *turn) all(p Progress) bool {
	return !slices.ContainsFunc(t.Stages, func(s Stage) bool { return s.Progress < p })
}

// faultIn ends the run by a fault that only one phase can have.
func (t *turn) faultIn(p Phase, k Key, why *fault.Fault) {
	if t.Phase == p && k == t.Key {
		t.conclude(Faulted, id.NodeID{}, why)
	}
}

func (t *turn) stageFault(o Of, why *fault.Fault) {
	if i := t.find(o); i >= 0 {
		t.conclude(Faulted, o.Node, why)
	}
}

// lose ends the run by a node's loss. The node is told to free what it holds,
// since a suspect may live, but nobody waits for it.
func (t *turn) lose(e NodeLost) {
	if e.Key != t.Key {
		return
	}
	i := slices.IndexFunc(t.Stages, func(s Stage) bool { return s.Node == e.Node })
	if i < 0 && !e.Node.IsZero() {
		return
	}
	t.conclude(Faulted, e.Node, e.Fault)
	if i >= 0 {
		t.free(i)
	}
	t.finish()
}

// conclude records the outcome, once, and begins the teardown.
func (t *turn) conclude(o Outcome, node id.NodeID, why *fault.Fault) {
	if t.Outcome != Open || t.Phase == Idle {
		return
	}
	served := t.Phase == Serving
	t.Outcome = o
	switch o {
	case Completed:
		t.emit(RunCompleted{t.Key})
	case Stopped:
		t.emit(RunStopped{t.Key})
	default:
		if why == nil {
			why = fault.New(fault.InternalUnexpected, component)
		}
		t.Fault = why
		t.emit(RunFaulted{Key: t.Key, Node: node, Fault: why})
	}
	t.become(TearingDown)
	if served {
		t.emit(CloseServing{t.Key})
	}
	for i := range t.Stages {
		if p := t.Stages[i].Progress; p >= Ordered && p < Freed {
			t.emit(TearDown{t.of(i)})
		}
	}
	t.finish()
}

const component = "run"
