package node

import (
	"os"
	"path/filepath"
	"testing"

	"muster/internal/core/boot"
	"muster/internal/edge"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

func TestWeightsThatOnlyTheOrchestratorHas(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "stories260K.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	o := newOrchestrator(t, func(o *orchestrator) { o.model = b })
	nodes := []*running{o.run(o.realConfig()), o.run(o.realConfig())}
	for _, n := range nodes {
		n.available(1)
	}
	r := o.plan(nodes...) // the addresses of the neighbours stand in the orders
	o.introduce(nodes)
	r.form()
	if got := r.tell(10); len(got) != 10 {
		t.Errorf("told %v", got)
	}
	r.end()
	o.mu.Lock()
	reads := o.reads
	o.mu.Unlock()
	if reads < 2 {
		t.Errorf("the weights were read in %d streams", reads)
	}
	for _, n := range nodes {
		if err := n.end(); err != nil {
			t.Error(err)
		}
		if f := r.stageFault(n); f != nil {
			t.Errorf("a stage faulted: %v", f)
		}
	}
}

func TestALostNeighbourIsNamed(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	r := o.plan(n)
	r.form()
	r.first.Cancel(edge.CodeFaulted)
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	f := r.stageFault(n)
	if f == nil || f.Code != fault.EdgeStreamDropped || f.Attr("peer") != o.endpoint.ID().Short() {
		t.Errorf("the stage faulted: %v", f)
	}
	_ = r.pipe.Close(t.Context()) // the stage is gone
	r.arrival.Close()
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeFaulted](n) != 0 {
		t.Error("the node faulted")
	}
}

func TestALostSocketIsOpenedAnew(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.begin(o.config(fakeworker.Knobs{}), true)
	n.available(1)
	if err := n.node.network.Load().endpoint.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.until("the loss", func() bool { return count[event.NodeFaulted](n) > 0 })
	if f := latest[event.NodeFaulted](n); f.Fact != boot.Endpoint.String() || f.Fault.Code != fault.EndpointSocketClosed {
		t.Errorf("%s faulted: %v", f.Fact, f.Fault)
	}
	n.available(2)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
