package gate

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Phase is what the gate says at an instant. It is derived from the facts.
type Phase uint8

// The phases, as in the package's diagram.
const (
	Unformed Phase = iota
	Waiting
	Settling
	Asking
	Ready
	Committed
	Faulted
	Aborted
)

// Phases returns every phase, in order.
func Phases() []Phase {
	return []Phase{Unformed, Waiting, Settling, Asking, Ready, Committed, Faulted, Aborted}
}

func (p Phase) String() string {
	return [...]string{"unformed", "waiting", "settling", "asking", "ready", "committed", "faulted", "aborted"}[p]
}

// Gate is the state. Its zero value is not usable: see New.
type Gate struct {
	config Config
	now    time.Duration
	phase  Phase // as last announced

	epoch uint64 // of the pool; 0 before the first definition
	nodes []node
	index map[id.NodeID]int32
	short int // nodes that lack a fact

	since   time.Duration // of the last change, the start of the window
	expiry  time.Duration // no contact grows too old before this instant
	due     time.Duration // the formation's deadline; 0 means none
	round   uint64        // the latest closing question
	asking  bool
	askDue  time.Duration
	answers int
	ready   bool
	aborted *fault.Fault // nil unless the formation was given up

	wake      time.Duration // the tick asked for; 0 means none
	viewRead  time.Duration // instant of the latest reading
	viewFresh bool
	healthBad bool
	starved   bool
	lateUntil time.Duration // a late tick counts until then

	asks   uint64 // the latest question to a holder
	rivals []rival

	run     id.RunID // none unless a plan is committed
	runLoss *fault.Fault

	effects []Effect
}

// New returns a gate without a pool. Figures that are not positive are those of
// LAN.
func New(c Config) *Gate {
	return &Gate{config: c.floored(), index: map[id.NodeID]int32{}}
}

// Step lets time pass until now, takes the event and returns what is to be
// done, in order; the slice is valid until the next Step. An instant before the
// latest one is taken for that one. It never fails: an event that means
// nothing here changes nothing.
func (g *Gate) Step(e Event, now time.Duration) []Effect {
	clear(g.effects)
	g.effects = g.effects[:0]
	g.now = max(g.now, now)
	g.pass()
	switch e := e.(type) {
	case PoolDefined:
		g.define(e)
	case NodeKnown:
		g.known(e)
	case SwimSeen:
		g.swim(e)
	case NodeAvailable:
		g.available(e)
	case NodeFaulted:
		g.faulted(e)
	case EndpointDialled:
		g.dialled(e)
	case ContactMade:
		g.contact(e)
	case NonceAnswered:
		g.answered(e)
	case HolderAnswered:
		g.holderAnswered(e)
	case HolderGone:
		g.holderGone(e)
	case ViewRead:
		g.readView()
	case HealthSeen:
		g.seeHealth(e)
	case CommitAsked:
		g.commit(e)
	case RunEnded:
		g.endRun(e)
	case FormationAsked:
		g.formAgain()
	case Tick:
	}
	g.announce()
	g.askWake()
	return g.effects
}

// Phase is the phase at the latest step.
func (g *Gate) Phase() Phase {
	switch {
	case !g.run.IsZero() && g.runLoss != nil:
		return Faulted
	case !g.run.IsZero():
		return Committed
	case g.epoch == 0:
		return Unformed
	case g.aborted != nil:
		return Aborted
	case g.ready:
		return Ready
	case g.asking:
		return Asking
	case g.holds():
		return Settling
	default:
		return Waiting
	}
}

// Epoch is that of the pool, 0 where none is defined.
func (g *Gate) Epoch() uint64 { return g.epoch }

// Left is how much of the window is still to pass, 0 where it does not run.
func (g *Gate) Left(now time.Duration) time.Duration {
	if g.Phase() != Settling {
		return 0
	}
	return max(0, g.config.Window-(max(now, g.now)-g.since))
}

// Run is the run that holds the pool, none where no plan is committed.
func (g *Gate) Run() id.RunID { return g.run }

// holds reports whether every fact holds that readiness needs, apart from time
// and the closing question.
func (g *Gate) holds() bool {
	return len(g.nodes) > 0 && g.short == 0 && g.viewFresh && !g.starved
}

// forming reports whether the gate is on its way to readiness, or there.
func (g *Gate) forming() bool { return g.epoch > 0 && g.run.IsZero() && g.aborted == nil }

func (g *Gate) emit(e Effect) { g.effects = append(g.effects, e) }

func (g *Gate) announce() {
	if p := g.Phase(); p != g.phase {
		g.emit(PhaseChanged{From: g.phase, To: p})
		g.phase = p
	}
}

// unsettle starts the window again. Because says what changed: it is the cause
// of a readiness that is lost by it.
func (g *Gate) unsettle(because func() *fault.Fault) {
	g.since = g.now
	g.asking = false
	if !g.ready {
		return
	}
	g.ready = false
	g.startFormation()
	lost := fault.New(fault.PoolReadinessLost, component, "epoch", g.epoch).Because(because())
	g.emit(PoolLost{Epoch: g.epoch, Fault: lost})
	if g.config.LossPolicy == Abort {
		g.abort(lost)
	}
}

// startFormation sets the formation's deadline from now.
func (g *Gate) startFormation() {
	g.due = 0
	if g.config.Formation > 0 {
		g.due = g.now + g.config.Formation
	}
}

func (g *Gate) abort(f *fault.Fault) {
	g.aborted, g.asking, g.due = f, false, 0
	g.emit(PoolAborted{Epoch: g.epoch, Fault: f})
}

func (g *Gate) formAgain() {
	if g.aborted == nil || !g.run.IsZero() {
		return
	}
	g.aborted = nil
	g.since = g.now
	g.startFormation()
}

// Members lists the candidates with the boots that count, none where none is
// known, in the order of the pool.
func (g *Gate) Members() []Booted {
	all := make([]Booted, len(g.nodes))
	for i := range g.nodes {
		all[i] = g.nodes[i].booted()
	}
	return all
}

const component = "gate"
