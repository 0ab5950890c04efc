//go:build unix

package rig

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/wire"
)

// strike sends the worker a signal and waits until it is felt.
func strike(t *testing.T, r *Rig, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(r.PID(), sig); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); r.worker.State() == "running"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the worker runs on after %v", sig)
		}
	}
}

func TestStepNamesWhyTheWorkerIsGone(t *testing.T) {
	prompt := ids(5)
	for name, c := range map[string]struct {
		signal syscall.Signal
		want   fault.Code
	}{
		"killed":  {syscall.SIGKILL, fault.WorkerKilled},
		"stopped": {syscall.SIGSTOP, fault.WorkerStopped},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, gguf.Range{Start: 2, End: 4})
			strike(t, r, c.signal)
			it := opening(t, prompt, 0)
			rows := &wire.Record{Kind: wire.KindRows, Width: 128, Items: []wire.Item{it}, Rows: make([]float32, 5*128)}
			for range 2 { // the first fault stays
				if _, err := r.Step(t.Context(), rows); !errors.Is(err, c.want) || fault.From(err).Component != "rig" {
					t.Errorf("got %v, want %s of rig", err, c.want)
				}
			}
		})
	}
}

// Close while a Step is under way ends the Step.
func TestCloseEndsAStep(t *testing.T) {
	r := start(t, gguf.Range{Start: 0, End: 1})
	strike(t, r, syscall.SIGSTOP) // so that the Step waits
	prompt := ids(4)
	done := make(chan error, 1)
	go func() {
		_, err := r.Step(t.Context(), tokens(opening(t, prompt, 0), prompt))
		done <- err
	}()
	r.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a stopped worker answered")
		}
	case <-time.After(20 * time.Second):
		t.Error("the Step did not end")
	}
}
