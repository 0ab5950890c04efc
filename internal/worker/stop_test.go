//go:build linux || darwin

package worker_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

func TestStopEndsWhatDoesNotWantTo(t *testing.T) {
	for name, k := range map[string]fakeworker.Knobs{
		"heeds TERM":        {IgnoreStop: true},
		"ignores TERM":      {IgnoreStop: true, IgnoreTerm: true},
		"deaf, idle":        {At: fakeworker.AtIdle, Do: fakeworker.Deaf, IgnoreStop: true, IgnoreTerm: true},
		"stdout closed":     {At: fakeworker.AtIdle, Do: fakeworker.CloseStdout, IgnoreTerm: true, IgnoreStop: true},
		"owns a grandchild": {At: fakeworker.AtIdle, Do: fakeworker.Grandchild, IgnoreStop: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, k)
			s.Grace = 100 * time.Millisecond
			w := start(t, s)
			if err := w.Stop(t.Context()); err != nil {
				t.Errorf("stop gave %v", err)
			}
			if f := w.Exit(); f != nil {
				t.Errorf("exit after a stop is %v", f)
			}
		})
	}
}

func TestStopIsShortWhenItsContextEnds(t *testing.T) {
	s := spec(t, fakeworker.Knobs{IgnoreStop: true, IgnoreTerm: true})
	s.Grace = time.Hour
	w := start(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Stop(ctx); err != nil || w.Exit() != nil {
		t.Errorf("stop gave %v, exit %v", err, w.Exit())
	}
}

func TestACrashWhileStoppingIsTold(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{StopStatus: 3}))
	if err := w.Stop(t.Context()); fault.From(err).Code != fault.WorkerExited || w.Exit().Attr("status") != "3" {
		t.Errorf("stop gave %v, exit %v", err, w.Exit())
	}
}

func TestStopAnswersEveryWaiter(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Hang}))
	var waiting sync.WaitGroup
	for range 4 {
		waiting.Go(func() {
			if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpLoad}, nil); fault.From(err).Code != fault.RunInterrupted {
				t.Errorf("a load under way gave %v", err)
			}
		})
		waiting.Go(func() {
			if err := w.Stop(t.Context()); err != nil {
				t.Errorf("one of several stops gave %v", err)
			}
		})
	}
	waiting.Wait()
}

// grandchild starts a worker of s, whose act names a grandchild.
func grandchild(t *testing.T, do fakeworker.Act) (w *worker.Worker, pid int) {
	t.Helper()
	told := make(chan int, 1)
	s := spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: do})
	s.Log = func(line string) {
		if n, err := strconv.Atoi(strings.TrimPrefix(line, "grandchild ")); err == nil {
			told <- n
		}
	}
	w = start(t, s)
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
		t.Fatal(err)
	}
	return w, <-told
}

func TestAGrandchildGoesWithItsWorker(t *testing.T) {
	for name, end := range map[string]func(*worker.Worker){
		"stop":  func(w *worker.Worker) { _ = w.Stop(context.Background()) },
		"death": func(w *worker.Worker) { _ = syscall.Kill(w.PID(), syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			w, pid := grandchild(t, fakeworker.Grandchild)
			end(w)
			await(t, w)
			awaitGone(t, pid)
		})
	}
}

func TestAnEscapedGrandchildHoldsNothingUp(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	w, pid := grandchild(t, fakeworker.Escape)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	kill(t, w.PID(), syscall.SIGKILL)
	await(t, w)
	if f := w.Exit(); f.Code != fault.WorkerKilled {
		t.Errorf("ended with %v", f)
	}
}

func TestAWorkerIsNicerThanItsDaemon(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	before := nice(t, 0)
	w := start(t, spec(t, fakeworker.Knobs{}))
	if got := nice(t, w.PID()); got != before+worker.DefaultNice {
		t.Errorf("nice %d under a daemon of %d", got, before)
	}
	if got := nice(t, syscall.Getpid()); got != before {
		t.Errorf("the daemon went from nice %d to %d", before, got)
	}
}

func nice(t *testing.T, pid int) int {
	t.Helper()
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - prio
}
