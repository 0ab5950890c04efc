//go:build linux || darwin

package worker_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

// spec is a fake worker of these knobs.
func spec(t testing.TB, k fakeworker.Knobs) worker.Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return worker.Spec{
		Name:   "worker 1",
		Binary: exe,
		Env:    k.Env(),
		Nice:   worker.DefaultNice,
		Boot:   10 * time.Second,
		Grace:  time.Second,
	}
}

// start starts a worker that is stopped when the test ends.
func start(t testing.TB, s worker.Spec) *worker.Worker {
	t.Helper()
	testkit.Leaks(t)
	w, err := worker.Start(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	return w
}

func TestAGoodWorkerAnswersAndStops(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{}))
	if got := w.Opened(); got.PID != w.PID() || got.Engine != "fake" {
		t.Errorf("opened as %+v, process %d", got, w.PID())
	}
	r, err := w.Call(t.Context(), wire.Request{Op: wire.OpTokenize, Tokenize: &wire.Tokenize{Text: "ab"}}, nil)
	if err != nil || len(r.Tokens) != 2 {
		t.Errorf("tokenize gave %v, %v", r.Tokens, err)
	}
	if got := w.State(); got != "running" {
		t.Errorf("state %q", got)
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if f := w.Exit(); f != nil {
		t.Errorf("exit after a stop: %v", f)
	}
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("a call after the stop gave %v", err)
	}
}

func TestACrashIsNamedByItsSignal(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Crash, Words: []string{"about to"}}))
	_, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil)
	if f := fault.From(err); f.Code != fault.WorkerKilled || f.Attr("signal") != "SIGSEGV" || f.Attr("log") != "about to" {
		t.Errorf("the call gave %v with %v", err, f.Attrs)
	}
}
