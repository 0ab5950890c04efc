package main

import (
	"errors"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/wire"
)

// A daemon of another build may mean other things by the same words: it is
// refused before the engine is loaded.
func TestAnotherProtocolIsRefused(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for _, protocol := range []int{0, wire.WorkerProtocol - 1, wire.WorkerProtocol + 1} {
		h := newHost(nil)
		_, err := h.do(wire.Request{ID: 1, Op: wire.OpOpen, Open: &wire.Open{Protocol: protocol, Engine: testkit.EngineDir(t)}})
		if !errors.Is(err, fault.WorkerProtocolBroken) || h.library != nil {
			t.Errorf("protocol %d: %v", protocol, err)
		}
	}
}

// Nothing is computed by a worker that was not opened.
func TestNothingBeforeOpen(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for _, req := range []wire.Request{
		{Op: wire.OpTrial, Trial: &wire.Trial{Path: "x"}},
		{Op: wire.OpLoad, Load: &wire.Load{Path: "x"}},
		{Op: wire.OpServe},
	} {
		if _, err := newHost(nil).do(req); !errors.Is(err, fault.WorkerProtocolBroken) {
			t.Errorf("%s: %v", req.Op, err)
		}
	}
}
