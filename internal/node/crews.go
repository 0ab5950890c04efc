package node

import (
	"context"
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
)

// crewWithin bounds the making of a crew after the first.
const crewWithin = 20 * time.Second

// adopt takes a proven crew for the stage to come and has it watched.
func (n *node) adopt(c *crew) {
	o := c.worker.Opened()
	n.cfg.Tell(event.WorkerStarted{Worker: workerName, PID: o.PID, Engine: o.Engine, Device: deviceOf(o.Devices)})
	n.attempt.crew = c
	n.tasks.Go(func() { c.watch(n) })
	n.tasks.Go(func() { c.pulse(n) })
}

// makeCrew makes the crew of the next stage, unless that is under way.
func (n *node) makeCrew() {
	a := n.attempt
	if a.making || a.crew != nil {
		return
	}
	a.making = true
	a.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, crewWithin)
		defer cancel()
		c, err := n.newCrew(ctx, a.arena)
		a.proven = c // freed with the attempt, unless the mailbox takes it
		n.tell(crewMade{attempt: a, crew: c, why: fault.From(err)})
	})
}

// crewMade hands a new crew to the stage that waits for it, or keeps it. An
// attempt that is being freed frees it too.
func (n *node) crewMade(m crewMade) {
	if m.attempt != n.attempt || n.unfreed {
		return
	}
	n.attempt.making = false
	if m.why != nil {
		n.workerLost(m.why)
		return
	}
	if s := n.said.backend; !s.IsZero() && m.crew.backend != s {
		// The crew is freed with the attempt; the next one announces what it has.
		n.workerLost(fault.New(fault.NodeEngineChanged, component, "was", s, "now", m.crew.backend))
		return
	}
	n.attempt.proven = nil
	n.adopt(m.crew)
	n.stepBoot(boot.FactProven{Attempt: m.attempt.number, Fact: boot.Worker, Detail: "started by its stage"})
	if n.stage.Phase == stage.Preparing {
		n.man()
	}
}

// workerLost is a fault of boot. Where its start was deferred it is the
// stage's alone.
func (n *node) workerLost(why *fault.Fault) {
	n.stepBoot(boot.ResourceLost{Attempt: n.boot.Attempt, Fact: boot.Worker, Fault: why})
	if n.work != nil {
		n.stepStage(stage.StageFailed{Order: n.work.order, Fault: why})
	}
}

// crewFaulted follows a worker's own faults and its end. One that ended because
// it was asked to is no loss. A fault that the worker outlives is its stage's.
func (n *node) crewFaulted(m crewFaulted) {
	a := n.attempt
	if m.why == nil || a == nil || a.crew != nil && a.crew != m.crew {
		return
	}
	if w := n.work; !m.gone && w != nil && w.crew == m.crew {
		n.stepStage(stage.StageFailed{Order: w.order, Fault: m.why})
		return
	}
	n.workerLost(m.why)
}
