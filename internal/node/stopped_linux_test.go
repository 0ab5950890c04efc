package node

import (
	"context"
	"syscall"
	"testing"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/wire"
)

func TestAStoppedWorkerIsEndedByTheTeardown(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	r := o.plan(n)
	r.form()
	if err := syscall.Kill(n.worker(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.end()
	if late := count[event.StageTeardownDelayed](n); late != 0 {
		t.Errorf("the teardown was late %d times", late)
	}
	next := o.plan(n)
	next.form()
	next.tell(3)
	next.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// A worker that is stopped in the middle of an answer ends its stage by that,
// and the node serves the next run.
func TestAStoppedWorkerThatOwesAStepEndsItsStage(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	r := o.plan(n)
	r.form()
	if err := syscall.Kill(n.worker(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		s := infer.Serve(ctx, r.pipe, infer.Config{Recipe: recipe})
		defer s.Close(context.Canceled)
		_, err := s.Generate(ctx, infer.Request{Prompt: []int32{1, 300}, Sampling: infer.Greedy(), MaxTokens: 3},
			func(wire.Answer) error { return nil })
		asked <- err
	}()
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	cancel()
	if err := <-asked; err == nil {
		t.Error("it was answered")
	}
	f := r.stageFault(n)
	if f == nil || f.Code != fault.WorkerStopped || f.Component != workerName || f.Attr("signal") != "SIGSTOP" {
		t.Errorf("the stage faulted: %v", f)
	}
	_ = r.pipe.Close(t.Context()) // the stage is gone
	r.arrival.Close()
	next := o.plan(n)
	next.form()
	next.tell(3)
	next.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeFaulted](n) != 0 {
		t.Error("the node faulted")
	}
}

// Nobody asks anything of an idle worker: its pulse shows that it was stopped.
func TestAStoppedIdleWorkerIsLost(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	if err := syscall.Kill(n.worker(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if f := o.faulted(n); f.Code != fault.WorkerStopped {
		t.Errorf("the fault is %v", f)
	}
	n.available(2)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
