package worker

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"muster/internal/fault"
	"muster/internal/syslib"
)

// onOwnThread runs f on a thread that ends with it and is not the process'
// first: that one cannot end, and its priority counts as the process'.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if !onFirstThread() {
		f()
		return
	}
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		f()
	}()
	<-locked
	runtime.UnlockOSThread()
}

// keep starts the process, tells born how that went, and stays with it to its
// end. It needs a thread of its own: the parent-death signal comes when the
// starting thread dies, and the lower priority which the child inherits from it
// cannot be taken back without privilege.
func (w *Worker) keep(born chan<- error) {
	lifeline := w.pipes.theirs[3]
	beforeStart(lifeline, w.spec.Nice)
	proc, err := os.StartProcess(w.spec.Binary, []string{w.spec.Binary}, &os.ProcAttr{
		Env:   environment(w.spec.Env),
		Files: slices.Concat(w.pipes.theirs, w.spec.Files),
		Sys:   attributes(),
	})
	if err != nil {
		w.pipes.closeTheirs()
		w.pipes.closeOurs()
		born <- err
		return
	}
	w.group.pid = proc.Pid
	afterStart(lifeline, proc.Pid, w.spec.Nice)
	w.pipes.closeTheirs()

	var readers sync.WaitGroup
	readers.Go(w.hear)
	readers.Go(func() { w.tail.follow(w.pipes.stderr) })
	born <- nil

	state, err := w.group.reap(proc)
	close(w.ended)
	// A descendant that left the group may hold the pipes open for ever. What
	// the child itself wrote lies in them now.
	_ = w.pipes.stdout.SetReadDeadline(time.Now().Add(lastWords))
	_ = w.pipes.stderr.SetReadDeadline(time.Now().Add(lastWords))
	readers.Wait()
	w.pipes.closeOurs()
	w.settle(w.judge(state, err))
}

// judge turns the end of the process into Exit's fault.
func (w *Worker) judge(state *os.ProcessState, err error) *fault.Fault {
	w.mu.Lock()
	verdict, stopping, serving := w.verdict, w.stopping, w.serving
	w.mu.Unlock()
	log := w.tail.String()
	switch {
	case verdict != nil:
		return verdict
	case err != nil:
		return fault.New(fault.WorkerExited, w.spec.Name, "status", "unknown", "log", log).Because(err)
	case stopping && orderly(state):
		return nil
	}
	if library, pkg, found := syslib.Missing(log); found && !serving {
		return fault.New(fault.WorkerLibraryMissing, w.spec.Name, "library", library, "package", pkg)
	}
	if sig := endSignal(state); sig != "" {
		return fault.New(fault.WorkerKilled, w.spec.Name, "signal", sig, "log", log)
	}
	return fault.New(fault.WorkerExited, w.spec.Name, "status", state.ExitCode(), "log", log)
}

// settle publishes the end: every waiter is answered.
func (w *Worker) settle(exit *fault.Fault) {
	w.mu.Lock()
	w.exit = exit
	w.mu.Unlock()
	if exit == nil {
		exit = fault.New(fault.RunInterrupted, w.spec.Name)
	}
	w.calls.end(exit)
	close(w.faults)
	close(w.done)
}
