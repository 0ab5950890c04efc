//go:build linux || darwin

package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

// brief is a deadline that a worker which owes nothing never meets.
const brief = 300 * time.Millisecond

func TestABootThatDoesNotEndIsOverdue(t *testing.T) {
	for name, k := range map[string]fakeworker.Knobs{
		"hangs":     {At: fakeworker.On(wire.OpOpen), Do: fakeworker.Hang},
		"half line": {At: fakeworker.On(wire.OpOpen), Do: fakeworker.Say, Text: `{"id":1`},
		"deaf":      {At: fakeworker.AtStart, Do: fakeworker.Deaf, IgnoreTerm: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, k)
			s.Boot = brief
			if f := live(t, s); f.Code != fault.WorkerBootOverdue || f.Attr("waited") == "" {
				t.Errorf("got %v (%s)", f, f.Code)
			}
		})
	}
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAnOverdueBootTellsTheLastWords(t *testing.T) {
	testkit.Leaks(t)
	d := deadline{t.Context(), make(chan struct{})}
	s := spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Hang, Words: []string{"loading"}})
	s.Log = func(string) { close(d.passed) }
	_, err := worker.Start(d, s)
	if f := fault.From(err); f.Code != fault.WorkerBootOverdue || f.Attr("log") != "loading" {
		t.Errorf("start gave %v with %v", err, f.Attrs)
	}
}

func TestABootThatIsStoppedIsNamedByItsSignal(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	testkit.Leaks(t)
	d := deadline{t.Context(), make(chan struct{})}
	s := spec(t, fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Signal, Number: int(syscall.SIGSTOP), Pid: true})
	s.Log = func(line string) {
		go func() {
			defer close(d.passed)
			for pid := strings.TrimPrefix(line, "pid "); d.Context.Err() == nil && !allStopped(pid); {
				time.Sleep(time.Millisecond)
			}
		}()
	}
	_, err := worker.Start(d, s)
	if f := fault.From(err); f.Code != fault.WorkerStopped || f.Attr("signal") != "SIGSTOP" {
		t.Errorf("start gave %v", err)
	}
}

// allStopped reports whether every thread of a process is stopped: only then
// is the process.
func allStopped(pid string) bool {
	stats, err := filepath.Glob("/proc/" + pid + "/task/*/stat")
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, stat := range stats {
		if b, err := os.ReadFile(stat); err != nil || !strings.Contains(string(b), ") T ") {
			return false
		}
	}
	return true
}

func TestABootIsInterrupted(t *testing.T) {
	testkit.Leaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Hang, Words: []string{"up"}})
	s.Log = func(string) { cancel() }
	if _, err := worker.Start(ctx, s); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("start gave %v", err)
	}
}

func TestAStoppedWorkerIsNamedByItsSignal(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{}))
	kill(t, w.PID(), syscall.SIGSTOP)
	awaitState(t, w, "stopped by SIGSTOP")
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	_, err := w.Call(ctx, wire.Request{Op: wire.OpPing}, nil)
	if f := fault.From(err); f.Code != fault.WorkerStopped || f.Attr("signal") != "SIGSTOP" || f.Attr("pid") == "" {
		t.Errorf("a call to a stopped worker gave %v", err)
	}
	kill(t, w.PID(), syscall.SIGCONT)
	awaitState(t, w, "running")
	// The answer that comes now, too late, is dropped.
	if r, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil || r.ID != 3 {
		t.Errorf("after it went on a call gave %+v, %v", r, err)
	}
	kill(t, w.PID(), syscall.SIGSTOP)
	awaitState(t, w, "stopped by SIGSTOP")
	if err := w.Stop(t.Context()); err != nil || w.Exit() != nil {
		t.Errorf("stopping a stopped worker gave %v, exit %v", err, w.Exit())
	}
	if w.State() != "ended" {
		t.Errorf("state %q", w.State())
	}
}

func awaitState(t *testing.T, w *worker.Worker, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for w.State() != want {
		if time.Now().After(deadline) {
			t.Fatalf("state %q, want %q", w.State(), want)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestACallThatHangsEndsAtItsDeadlineAlone(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Hang}))
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			_, err := w.Call(ctx, wire.Request{Op: wire.OpLoad}, nil)
			if f := fault.From(err); f.Code != fault.WorkerCallOverdue || f.Attr("op") != "load" {
				t.Errorf("the call gave %v", err)
			}
		})
	}
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
		t.Errorf("a ping while loads hang gave %v", err)
	}
	calls.Wait()
}

func TestARequestThatIsNotReadEndsAtItsDeadline(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Deaf}))
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := w.Call(ctx, wire.Request{Op: wire.OpPing}, nil); !errors.Is(err, fault.WorkerCallOverdue) {
		t.Errorf("the first call gave %v", err)
	}
	// More than the pipe and the reader's buffer hold: the writing begins and
	// cannot end.
	long := wire.Request{Op: wire.OpTokenize, Tokenize: &wire.Tokenize{Text: strings.Repeat("long ", 1<<16)}}
	ctx, cancel = context.WithTimeout(t.Context(), 10*brief)
	defer cancel()
	if _, err := w.Call(ctx, long, nil); !errors.Is(err, fault.WorkerCallOverdue) {
		t.Errorf("the long call gave %v", err)
	}
	await(t, w) // nothing sent after half a request would be understood
	if f := w.Exit(); f == nil || f.Code != fault.WorkerCallOverdue {
		t.Errorf("ended with %v", f)
	}
}

func TestProgressIsToldBeforeTheAnswer(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Advance, Number: 50}))
	last := float32(-1)
	r, err := w.Call(t.Context(), wire.Request{Op: wire.OpLoad}, func(p wire.Progress) {
		if p.Done <= last {
			t.Errorf("progress %v after %v", p.Done, last)
		}
		last = p.Done
	})
	if err != nil || r.Loaded == nil || last != 1 {
		t.Errorf("answer %+v, %v, progress up to %v", r, err, last)
	}
}
