package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/internal/control"
	"muster/internal/demo"
	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

func TestOrdersThatTheNodeRefuses(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	// Its load hangs, so that the first stage stays.
	n := o.run(o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Hang}))
	n.available(1)
	held := o.plan(n)
	if err := held.provision(0); err != nil {
		t.Fatal(err)
	}
	if err := held.provision(0); err != nil {
		t.Errorf("the same order again: %v", err)
	}
	for _, c := range []struct {
		what   string
		change func(*controlpb.Provision)
		code   fault.Code
	}{
		{"another boot", func(p *controlpb.Provision) { p.BootId = controlpb.ID(o.boot) }, fault.StageBootMismatched},
		{"a second stage", func(*controlpb.Provision) {}, fault.StageNodeOccupied},
		{"a dry run while a stage is held", func(p *controlpb.Provision) { p.DryRun = true }, fault.StageNodeOccupied},
	} {
		order := o.plan(n).order(0)
		c.change(order)
		_, err := o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Provision{Provision: order}})
		if !errors.Is(err, c.code) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	n.until("loading", func() bool { return n.status().Stage.Phase == "loading" })
	held.tearDown()
	if again := held.provision(0); !errors.Is(again, fault.StageOrderInvalid) {
		t.Errorf("an order that was torn down: %v", again)
	}
	if o.reported(n.id, held.isFaulted) != 0 {
		t.Error("a stage that was torn down on request has faulted")
	}
	// Of an order that was never held nothing is left either.
	o.plan(n).tearDown()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// tearDown orders it, and waits until the nodes say that nothing is left.
func (r *trialRun) tearDown() {
	r.t.Helper()
	for _, n := range r.nodes {
		_, err := r.o.control.Call(r.t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_TearDown{TearDown: &controlpb.TearDown{
			RunId: controlpb.ID(r.run), Attempt: 1, BootId: controlpb.ID(n.boot),
		}}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.o.until("StageTornDown", func() bool { return r.o.reported(n.id, r.isTornDown) == 1 })
	}
}

func TestOnlyTheOrchestratorOrders(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{}))
	n.available(1)
	// A peer of the pool, which the node lets in.
	peer, err := endpoint.Open(endpoint.Config{Key: newKey(t), Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{{Name: control.Protocol}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close(context.Background()) })
	peer.Permit(1, map[id.NodeID][]string{n.id: {o.addresses(n.id)[0]}})
	_, err = o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Peers{Peers: &controlpb.Peers{
		Epoch: 2, Peers: []*controlpb.Peer{{NodeId: controlpb.ID(peer.ID()), Addresses: []string{peer.Addr().String()}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	caller := control.NewCaller(func(ctx context.Context, to id.NodeID) (control.Stream, error) {
		return peer.OpenStream(ctx, to, control.Protocol)
	})
	for _, body := range []*controlpb.Request{
		{Body: &controlpb.Request_Leave{Leave: &controlpb.Leave{}}},
		{Body: &controlpb.Request_Peers{Peers: &controlpb.Peers{Epoch: 9}}},
		{Body: &controlpb.Request_Provision{Provision: o.plan(n).order(0)}},
		{Body: &controlpb.Request_Provision{Provision: &controlpb.Provision{DryRun: true, BootId: controlpb.ID(n.boot)}}},
	} {
		if _, err := caller.Call(t.Context(), n.id, body); !errors.Is(err, fault.NodeCallerRefused) {
			t.Errorf("%s: %v", body.Op(), err)
		}
	}
	reply, err := caller.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Ping{Ping: &controlpb.Ping{Nonce: 7}}})
	if p := reply.GetPing(); err != nil || p.GetNonce() != 7 || controlpb.Boot(p.GetBootId()) != n.boot || p.GetPhase() != "available" || len(p.GetFacts().GetFacts()) != 8 {
		t.Errorf("a ping: %v, %v", reply, err)
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestAStageThatCannotBeMadeFaultsAndTheNodeStaysAvailable(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Refuse, Text: string(fault.StageLoadFailed)}))
	n.available(1)
	for _, c := range []struct {
		what   string
		change func(*controlpb.Provision)
		code   fault.Code
	}{
		{"the worker refuses the load", func(*controlpb.Provision) {}, fault.StageLoadFailed},
		{"a manifest that is none", func(p *controlpb.Provision) { p.Model.ManifestJson = []byte("{") }, fault.StageOrderInvalid},
		{"layers that the model has not", func(p *controlpb.Provision) { p.Layers.End = 40 }, fault.StageOrderInvalid},
		{"layers that are not its place", func(p *controlpb.Provision) { p.Layers.Start = 2 }, fault.StageOrderInvalid},
		{"more threads than there are processors", func(p *controlpb.Provision) { p.Recipe.Threads = 512 }, fault.RecipeInvalid},
		{"a model that nobody has", func(p *controlpb.Provision) {
			p.Model.Revision = "another"
			p.Model.ManifestJson = []byte(`{"revision":"another"}`)
			p.Model.Parts[0].SizeBytes = 10
		}, fault.GGUFHeaderTruncated},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := o.plan(n)
			order := r.order(0)
			c.change(order)
			if _, err := o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Provision{Provision: order}}); err != nil {
				t.Fatal(err)
			}
			o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
			if f := r.stageFault(n); f == nil || f.Code != c.code {
				t.Errorf("the stage faulted: %v", f)
			}
		})
	}
	n.until("a new worker", func() bool { return n.status().Stage == nil })
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeFaulted](n) != 0 || count[event.NodeBecameAvailable](n) != 1 {
		t.Error("the node was not available all the time")
	}
}

// stageFault is what the node's stage of the run ended by.
func (r *trialRun) stageFault(n *running) *fault.Fault {
	for _, m := range r.o.told(n.id) {
		if r.isFaulted(m) {
			return m.GetStageFaulted().GetFault().Typed()
		}
	}
	return nil
}

func TestADeadlineOfAnOrderEndsItsStage(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Hang}))
	n.available(1)
	r := o.plan(n)
	order := r.order(0)
	order.Deadlines = &controlpb.StageDeadlines{LoadMicros: controlpb.Micros(200 * time.Millisecond)}
	if _, err := o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Provision{Provision: order}}); err != nil {
		t.Fatal(err)
	}
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	if f := r.stageFault(n); f == nil || f.Code != fault.StageLoadOverdue {
		t.Errorf("the stage faulted: %v", f)
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestANodeWithADeferredWorkerStartsItForItsStage(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.realConfig()
	cfg.DeferWorker = true
	n := o.run(cfg)
	n.available(1)
	if a := o.told(n.id)[0].GetNodeAvailable(); a.GetWorkerPolicy() != controlpb.WorkerPolicy_WORKER_POLICY_DEFERRED || a.GetVersions().GetEngine() != "" {
		t.Errorf("it says %v", a)
	}
	if count[event.WorkerStarted](n) != 0 {
		t.Error("a worker was started")
	}
	for range 2 {
		r := o.plan(n)
		r.form()
		r.tell(3)
		r.end()
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

func TestADeferredWorkerThatDoesNotStartIsItsStagesFault(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3})
	cfg.DeferWorker = true
	n := o.run(cfg)
	n.available(1)
	r := o.plan(n)
	if err := r.provision(0); err != nil {
		t.Fatal(err)
	}
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	if f := r.stageFault(n); f == nil || f.Code != fault.WorkerExited {
		t.Errorf("the stage faulted: %v", f)
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeFaulted](n) != 0 {
		t.Error("the node faulted")
	}
}

// Weights come from a copy on the node's own disk where it is the same model,
// and from elsewhere where it is another or damaged.
func TestWeightsFromTheNodesOwnDisk(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.realConfig()
	cfg.DataDir = t.TempDir()
	n := o.run(cfg)
	n.available(1)
	whole := filepath.Join(t.TempDir(), "whole.gguf")
	if err := os.WriteFile(whole, demo.Tale(), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.gguf")
	b := append([]byte(nil), demo.Tale()...)
	b[len(b)-100] ^= 1
	if err := os.WriteFile(damaged, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var told [][]int32
	for _, path := range []string{damaged, whole, whole, "/nowhere.gguf"} {
		r := o.plan(n)
		r.source.Parts[0].Path = path
		r.form()
		told = append(told, r.tell(10))
		r.end()
	}
	for _, tokens := range told[1:] {
		if len(tokens) != 10 || tokens[3] != told[0][3] || tokens[9] != told[0][9] {
			t.Errorf("told %v", told)
		}
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
