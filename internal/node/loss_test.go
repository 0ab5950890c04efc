package node

import (
	"errors"
	"os"
	"testing"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// worker is the pid of the node's worker now.
func (r *running) worker() int {
	return latest[event.WorkerStarted](r).PID
}

func (r *running) killWorker() {
	r.t.Helper()
	p, err := os.FindProcess(r.worker())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(p.Kill(), p.Release()); err != nil {
		r.t.Fatal(err)
	}
}

// faulted returns the fault of the node's first NodeFaulted report.
func (o *orchestrator) faulted(n *running) *fault.Fault {
	o.t.Helper()
	o.until("NodeFaulted", func() bool { return o.reported(n.id, isFaulted) > 0 })
	for _, r := range o.told(n.id) {
		if f := r.GetNodeFaulted(); f != nil {
			return f.GetFault().Typed()
		}
	}
	return nil
}

func TestALostWorkerIsAFaultAndTheNextAttemptProvesAllAgain(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	n.killWorker()
	if f := o.faulted(n); f.Code != fault.WorkerKilled {
		t.Errorf("the fault is %v", f)
	}
	n.available(2)
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if proven := count[event.FactProven](n); proven != 16 {
		t.Errorf("%d facts were proven in two attempts", proven)
	}
	if o.greeted() != 2 {
		t.Errorf("%d hellos in two attempts", o.greeted())
	}
}

// A worker that lives and answers nothing any more is as lost as one that died.
func TestAWorkerThatGoesDeafIsLost(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Deaf, IgnoreTerm: true}))
	n.available(1)
	if f := o.faulted(n); f.Code != fault.WorkerCallOverdue || f.Attr("op") != string(wire.OpPing) {
		t.Errorf("the fault is %v", f)
	}
	if lost := latest[event.NodeFaulted](n); lost.Fact != boot.Worker.String() {
		t.Errorf("%s faulted", lost.Fact)
	}
	n.available(2)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestAWorkerKilledInMidTaleEndsTheStageAndNotTheNode(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	r := o.plan(n)
	r.form()
	r.tell(5)
	n.killWorker()
	if f := o.faulted(n); f.Code != fault.WorkerKilled {
		t.Errorf("the fault is %v", f)
	}
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	if o.reported(n.id, r.isFaulted) != 1 {
		t.Errorf("the stage faulted %d times", o.reported(n.id, r.isFaulted))
	}
	_ = r.pipe.Close(t.Context()) // the stage is gone
	r.arrival.Close()
	n.available(2)
	next := o.plan(n)
	next.form()
	next.tell(5)
	next.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestTheOrchestratorIsLostAndFoundAgain(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	at := o.endpoint.Addr().String()
	o.kill()
	n.until("the loss", func() bool { return count[event.NodeFaulted](n) > 0 })
	lost := latest[event.NodeFaulted](n)
	if lost.Fact != boot.Identity.String() || lost.Fault.Code != fault.NodeOrchestratorLost {
		t.Errorf("%s: %v", lost.Fact, lost.Fault)
	}
	o.mu.Lock()
	clear(o.reports)
	o.mu.Unlock()
	o.start(at)
	n.available(1)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestAnOrchestratorStartedAnewIsGreetedAnew(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	at := o.endpoint.Addr().String()
	former := o.boot
	o.kill()
	o.mu.Lock()
	clear(o.reports)
	o.mu.Unlock()
	o.start(at)
	o.mu.Lock()
	o.permit()
	o.mu.Unlock()
	n.until("the next availability", func() bool { return count[event.NodeBecameAvailable](n) == 2 })
	o.until("NodeAvailable", func() bool { return o.reported(n.id, isAvailable) == 1 })
	if o.boot == former {
		t.Error("the orchestrator has its former boot")
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestReportsThatAreRefusedAreAHelloAgain(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	o.mu.Lock()
	o.deaf = fault.New(fault.NodeRemoved, "orch", "name", "n")
	o.mu.Unlock()
	n.killWorker() // something to report
	n.until("the loss of the orchestrator", func() bool {
		return latest[event.NodeFaulted](n).Fault != nil && o.greeted() >= 3
	})
	o.mu.Lock()
	o.deaf = nil
	o.mu.Unlock()
	o.until("NodeAvailable", func() bool { return o.reported(n.id, isAvailable) >= 2 })
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func (o *orchestrator) greeted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hellos
}

func TestTheNodeLeavesWhenItIsTold(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	_, err := o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Leave{Leave: &controlpb.Leave{Reason: "test"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.outcome(); err != nil {
		t.Error(err)
	}
	if o.reported(n.id, isLeft) != 1 {
		t.Errorf("reports: %v", o.told(n.id))
	}
}

func TestAnIdleNodeThatIsToldToLeaveWhileItIsFaultedEnds(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3}))
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
