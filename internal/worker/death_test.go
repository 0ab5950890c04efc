//go:build linux || darwin

package worker_test

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

// phases are the moments of a worker's life at which it can die.
var phases = []fakeworker.Moment{
	fakeworker.AtStart, fakeworker.On(wire.OpOpen), fakeworker.AtIdle, fakeworker.On(wire.OpLoad), fakeworker.On(wire.OpPing),
}

// live takes a worker through a life in which it should die, and returns the
// fault that its owner sees first, after checking that all others agree.
func live(t *testing.T, s worker.Spec) *fault.Fault {
	t.Helper()
	testkit.Leaks(t)
	w, err := worker.Start(t.Context(), s)
	if err != nil {
		return fault.From(err)
	}
	defer func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Errorf("stopping a dead worker gave %v", err)
		}
	}()
	var first *fault.Fault
	for _, op := range []wire.Op{wire.OpLoad, wire.OpPing} {
		if _, err := w.Call(t.Context(), wire.Request{Op: op}, nil); err != nil && first == nil {
			first = fault.From(err)
		}
	}
	<-w.Done()
	if first == nil {
		first = w.Exit()
	}
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpStats}, nil); fault.From(err).Code != w.Exit().Code {
		t.Errorf("a call after the end gave %v, the exit is %v", err, w.Exit())
	}
	if first.Code != w.Exit().Code {
		t.Errorf("the first fault was %v, the exit is %v", first, w.Exit())
	}
	if _, open := <-w.Faults(); open {
		t.Error("the dead worker tells a fault unasked")
	}
	return first
}

func TestDeathIsNamedInEveryPhase(t *testing.T) {
	signals := []syscall.Signal{
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT, syscall.SIGKILL, syscall.SIGTERM,
	}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup: nobody dies of it then
		signals = append(signals, syscall.SIGHUP)
	}
	for _, at := range phases {
		for _, sig := range signals {
			t.Run(fmt.Sprintf("%s/%s", at, unix.SignalName(sig)), func(t *testing.T) {
				f := live(t, spec(t, fakeworker.Knobs{At: at, Do: fakeworker.Signal, Number: int(sig), Words: []string{"here I am"}}))
				if f.Code != fault.WorkerKilled || f.Attr("signal") != unix.SignalName(sig) {
					t.Errorf("got %v (%s)", f, f.Code)
				}
				if f.Component != "worker 1" || f.Attr("log") != "here I am" {
					t.Errorf("component %q, log %q", f.Component, f.Attr("log"))
				}
			})
		}
		for _, status := range []int{0, 1, 2, 125, 255} {
			t.Run(fmt.Sprintf("%s/status %d", at, status), func(t *testing.T) {
				f := live(t, spec(t, fakeworker.Knobs{At: at, Do: fakeworker.Exit, Number: status}))
				if f.Code != fault.WorkerExited || f.Attr("status") != fmt.Sprint(status) {
					t.Errorf("got %v (%s)", f, f.Code)
				}
			})
		}
	}
}

func TestAPanicLeavesItsWords(t *testing.T) {
	f := live(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Panic, Text: "not like this"}))
	if f.Code != fault.WorkerExited || f.Attr("status") != "2" || !strings.Contains(f.Attr("log"), "panic: not like this") {
		t.Errorf("got %v with %v", f, f.Attrs)
	}
}

func TestALibraryThatIsMissingIsNamed(t *testing.T) {
	for words, want := range map[string][2]string{
		"muster-worker: error while loading shared libraries: libstdc++.so.6: cannot open shared object file: No such file or directory": {"libstdc++.so.6", "libstdc++6"},
		"panic: libffi.so.8: cannot open shared object file: No such file or directory":                                                  {"libffi.so.8", "libffi8"},
	} {
		f := live(t, spec(t, fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 127, Bare: true, Words: []string{words}}))
		if f.Code != fault.WorkerLibraryMissing || f.Attr("library") != want[0] || f.Attr("package") != want[1] {
			t.Errorf("%q gave %v with %v", words, f, f.Attrs)
		}
	}
	// The same words of a worker that has served are an engine's, not the loader's.
	f := live(t, spec(t, fakeworker.Knobs{
		At: fakeworker.AtIdle, Do: fakeworker.Exit, Number: 1,
		Words: []string{"libcuda.so.1: cannot open shared object file: No such file or directory"},
	}))
	if f.Code != fault.WorkerExited {
		t.Errorf("after Open it gave %v", f)
	}
}

func TestStderrIsKeptWithinBounds(t *testing.T) {
	const lines = 20000
	s := spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Flood, Number: lines, Text: strings.Repeat("x", 3000)})
	told := 0
	s.Log = func(line string) {
		told++
		if len(line) > 1024 {
			t.Errorf("told a line of %d bytes", len(line))
		}
	}
	w := start(t, s)
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
		t.Fatalf("a worker that writes much to stderr does not answer: %v", err)
	}
	kill(t, w.PID(), syscall.SIGKILL)
	<-w.Done()
	log := w.Exit().Attr("log")
	if n := strings.Count(log, "\n") + 1; n != 40 || len(log) > 41*1024 {
		t.Errorf("kept %d lines of %d bytes", n, len(log))
	}
	if told != lines {
		t.Errorf("told %d lines of %d", told, lines)
	}
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
