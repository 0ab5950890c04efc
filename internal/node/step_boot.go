package node

import (
	"context"
	"errors"
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// Pauses between a fault and the next attempt.
const (
	firstPause = 500 * time.Millisecond
	mostPause  = 10 * time.Second
)

func (n *node) stepBoot(e boot.Event) {
	var effects []boot.Effect
	n.boot, effects = boot.Step(n.boot, e, n.now())
	for _, effect := range effects {
		n.performBoot(effect)
	}
}

func (n *node) performBoot(e boot.Effect) {
	switch e := e.(type) {
	case boot.PhaseChanged:
	case boot.Prove:
		n.prove(e)
	case boot.FactChanged:
		n.tellFact(e)
		if e.Fact == boot.Worker && e.Condition == boot.Proven && n.attempt.proven != nil {
			n.adopt(n.attempt.proven)
			n.attempt.proven = nil
		}
	case boot.NodeAvailable:
		n.retry, n.without = 0, 0
		n.cfg.Tell(event.NodeBecameAvailable{Boot: n.bootID, Attempt: e.Attempt, WorkerDeferred: e.WorkerDeferred})
		n.report.push(&controlpb.Report{Event: &controlpb.Report_NodeAvailable{NodeAvailable: n.available(e)}})
	case boot.OpenProvisioning:
		n.stepStage(stage.AvailabilityChanged{Available: true})
		n.offerNow()
	case boot.CloseProvisioning:
		n.stepStage(stage.AvailabilityChanged{Fault: n.boot.Fault})
	case boot.BootFaulted:
		n.faulted(e.Attempt, e.Fact, e.Fault)
	case boot.NodeFaulted:
		n.without = n.now()
		n.faulted(e.Attempt, e.Fact, e.Fault)
	case boot.NodeLeft:
		n.report.push(&controlpb.Report{Event: &controlpb.Report_NodeLeft{NodeLeft: &controlpb.NodeLeft{}}})
	case boot.Release:
		n.unfreed = true
		n.attempt.end()
		n.free()
	case boot.Wake:
		n.bootWake = e.At
	}
}

func (n *node) startAttempt() {
	if n.without == 0 {
		n.without = n.now()
	}
	n.attempt = newAttempt(n.ctx, n.boot.Attempt+1)
	n.cfg.Tell(event.BootStarted{Boot: n.bootID, Attempt: n.attempt.number})
	n.stepBoot(boot.AttemptStarted{Attempt: n.attempt.number})
}

// margin is how much sooner than the core's deadline a proof gives up, so that it
// can end what it began and say what it waited for.
const margin = 500 * time.Millisecond

// prove starts a proof. Its own deadline is before the core's.
func (n *node) prove(e boot.Prove) {
	a := n.attempt
	proof := proofs[e.Fact]
	left := e.By - n.now()
	a.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, left-min(margin, left/4))
		defer cancel()
		detail, err := proof(n, ctx, a)
		switch {
		case err == nil:
			n.tell(proved{boot.FactProven{Attempt: e.Attempt, Fact: e.Fact, Detail: detail}})
		case a.ctx.Err() != nil: // called off: nobody asks any more
		default:
			fact := e.Fact
			var other *elsewhere
			if errors.As(err, &other) {
				fact = other.fact
			}
			n.tell(proved{boot.FactFailed{Attempt: e.Attempt, Fact: fact, Fault: fault.From(err)}})
		}
	})
}

// proofs are how each fact is proven: by using the thing. What they make is the
// attempt's or the network's.
var proofs = map[boot.Fact]func(*node, context.Context, *attempt) (detail string, err error){
	boot.Process:      (*node).proveProcess,
	boot.Identity:     (*node).proveIdentity,
	boot.Arena:        (*node).proveArena,
	boot.Worker:       (*node).proveWorker,
	boot.Endpoint:     (*node).proveEndpoint,
	boot.Control:      (*node).proveControl,
	boot.Swim:         (*node).proveSwim,
	boot.Provisioning: (*node).proveProvisioning,
}

// elsewhere is a fault that says of another fact that it cannot be proven.
type elsewhere struct {
	fact boot.Fact
	why  error
}

func (e *elsewhere) Error() string { return e.why.Error() }
func (e *elsewhere) Unwrap() error { return e.why }

func (n *node) tellFact(e boot.FactChanged) {
	if e.Fault != nil {
		n.cfg.Tell(event.FactFailed{Boot: n.bootID, Attempt: e.Attempt, Fact: e.Fact.String(), Took: e.Took, Fault: e.Fault})
		return
	}
	n.cfg.Tell(event.FactProven{
		Boot: n.bootID, Attempt: e.Attempt, Fact: e.Fact.String(), Took: e.Took,
		Detail: e.Detail, Deferred: e.Condition == boot.Deferred,
	})
}

// faulted tells a fault and says what of the network outlives it.
func (n *node) faulted(attempt uint32, f boot.Fact, why *fault.Fault) {
	n.cfg.Tell(event.NodeFaulted{Boot: n.bootID, Attempt: attempt, Fact: f.String(), Fault: why})
	n.report.push(&controlpb.Report{Event: &controlpb.Report_NodeFaulted{NodeFaulted: &controlpb.NodeFaulted{Attempt: attempt, Fault: controlpb.FaultOf(why)}}})
	switch f {
	case boot.Identity, boot.Endpoint, boot.Control, boot.Swim:
		n.netLost = true
	default:
	}
	if f == boot.Identity && why.Code.Entry().Retry == fault.Never {
		n.verdict = why
	}
}

// free frees the attempt once no stage rests on it.
func (n *node) free() {
	if !n.unfreed || n.freeing || n.work != nil {
		return
	}
	n.freeing = true
	a, netLost := n.attempt, n.netLost
	n.tasks.Go(func() {
		a.tasks.Wait()
		a.free()
		if netLost {
			n.report.drain(drainWithin)
			if net := n.network.Swap(nil); net != nil {
				net.close()
			}
		}
		n.tell(freed{})
	})
}

// drainWithin is how long the last words of an attempt may take where the
// network does not outlive it.
const drainWithin = time.Second

// attemptFreed has the next attempt come after a pause, unless the process is
// to end.
func (n *node) attemptFreed() {
	n.attempt, n.freeing, n.unfreed, n.netLost = nil, false, false, false
	spent := n.cfg.Once || n.cfg.GiveUp > 0 && n.now()-n.without >= n.cfg.GiveUp
	if spent && n.verdict == nil && n.leaveBy == 0 {
		n.verdict = n.boot.Fault
	}
	if n.verdict != nil || n.leaveBy != 0 {
		return
	}
	n.retry = min(max(2*n.retry, firstPause), mostPause)
	n.retryAt = n.now() + n.retry
}
