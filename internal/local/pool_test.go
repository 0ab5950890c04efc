package local

import (
	"errors"
	"testing"

	"muster/internal/fault"
)

// A pool whose run has ended takes no request; who asks is told why it ended.
func TestARefusalAfterThePoolsFaultIsTheFault(t *testing.T) {
	p := &Pool{failed: make(chan struct{}), closing: make(chan struct{})}
	refused := fault.New(fault.OrchRequestRefused, "orchestrator", "what", "the pool is ready")
	if err := p.cause(refused); !errors.Is(err, fault.OrchRequestRefused) {
		t.Errorf("a sound pool gives %v", err)
	}
	p.fail(fault.New(fault.NodeSuspected, "", "node", "n2"))
	if err := p.cause(refused); !errors.Is(err, fault.NodeSuspected) {
		t.Errorf("after the fault it gives %v", err)
	}
	of := fault.New(fault.RequestPromptEmpty, "")
	if err := p.cause(of); !errors.Is(err, fault.RequestPromptEmpty) {
		t.Errorf("a fault of the request becomes %v", err)
	}
	if err := p.cause(nil); err != nil {
		t.Errorf("an answer becomes %v", err)
	}
}
