package node

import (
	"context"
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
)

// message is what the mailbox takes.
type message interface{ message() }

type (
	// proved is a proof's answer. It carries the attempt it was asked for.
	proved struct{ boot.Event }
	// worked is an answer of the stage's works. It carries their order.
	worked struct{ stage.Event }
	// lost: what stood behind a proven fact has gone.
	lost struct {
		fact boot.Fact
		why  *fault.Fault
	}
	// crewMade: a worker is proven, or not, for the stage to come.
	crewMade struct {
		attempt *attempt
		crew    *crew
		why     *fault.Fault
	}
	// crewFaulted: a worker has told a fault of its own, or is gone.
	crewFaulted struct {
		crew *crew
		why  *fault.Fault
		gone bool
	}
	// freed: nothing of the attempt is left.
	freed struct{}
	// leaving: the node is to leave.
	leaving struct{ reason string }
	// look asks for the status; it is answered always.
	look struct{ to chan<- Status }
)

func (proved) message()      {}
func (worked) message()      {}
func (lost) message()        {}
func (crewMade) message()    {}
func (crewFaulted) message() {}
func (freed) message()       {}
func (leaving) message()     {}
func (look) message()        {}
func (*ask) message()        {}
func (*ending) message()     {}

// serve is the mailbox: it takes one message after the other until the node has
// left or can go on no more, and nothing of its attempts is held.
func (n *node) serve(ctx context.Context) error {
	clock := time.NewTimer(0) // the first attempt
	defer clock.Stop()
	n.retryAt = n.now()
	done := ctx.Done()
	for {
		select {
		case m := <-n.box:
			n.take(m)
		case <-clock.C:
			n.tick()
		case <-done:
			done = nil
			n.take(leaving{"asked to end"})
		}
		if n.over() {
			return n.outcome()
		}
		clock.Reset(n.nextWake() - n.now())
	}
}

func (n *node) take(m message) {
	switch m := m.(type) {
	case proved:
		n.stepBoot(m.Event)
	case worked:
		n.stepStage(m.Event)
	case lost:
		n.stepBoot(boot.ResourceLost{Attempt: n.boot.Attempt, Fact: m.fact, Fault: m.why})
	case crewMade:
		n.crewMade(m)
	case crewFaulted:
		n.crewFaulted(m)
	case *ask:
		n.askStage(m)
	case *ending:
		n.endStage(m)
	case look:
		m.to <- n.status()
		return
	case offerAnswered:
		n.offerAnswered(m)
	case freed:
		n.attemptFreed()
	case leaving:
		n.leave(m.reason)
	}
	n.cfg.Status(n.status())
}

// tick does what its time has come for.
func (n *node) tick() {
	now := n.now()
	if due(n.bootWake, now) {
		n.bootWake = 0
		n.stepBoot(boot.Tick{})
	}
	if due(n.workWake, now) {
		n.workWake = 0
		n.stepStage(stage.Tick{})
	}
	if due(n.offer.at, now) {
		n.offer.at = 0
		n.askOffer()
	}
	if due(n.retryAt, now) {
		n.retryAt = 0
		n.startAttempt()
	}
	n.cfg.Status(n.status())
}

func due(at, now time.Duration) bool { return at != 0 && now >= at }

// nextWake is the earliest instant that something is to be done at.
func (n *node) nextWake() time.Duration {
	next := n.now() + time.Hour
	for _, at := range []time.Duration{n.bootWake, n.workWake, n.retryAt, n.offer.at, n.leaveBy} {
		if at != 0 {
			next = min(next, at)
		}
	}
	return next
}

// leave begins the end of the process, which has a deadline of its own.
func (n *node) leave(reason string) {
	if n.leaveBy != 0 {
		return
	}
	n.cfg.Tell(event.NodeLeft{Boot: n.bootID, Reason: reason})
	n.leaveBy = n.now() + leaveWithin
	n.retryAt, n.offer.at = 0, 0
	n.stepBoot(boot.LeaveAsked{})
}

// leaveWithin bounds the teardown of a stage and of its worker.
const leaveWithin = 20 * time.Second

// over reports whether the process ends here: it leaves, or must not go on, and
// holds nothing any more.
func (n *node) over() bool {
	if n.leaveBy != 0 && n.now() >= n.leaveBy {
		return true
	}
	return (n.leaveBy != 0 || n.verdict != nil) && n.attempt == nil && n.work == nil
}

func (n *node) outcome() error {
	switch {
	case n.attempt != nil || n.work != nil:
		return fault.New(fault.NodeCloseOverdue, component, "waited", leaveWithin, "what", "the stage is "+n.stage.Phase.String())
	case n.verdict != nil:
		return n.verdict
	default:
		return nil
	}
}
