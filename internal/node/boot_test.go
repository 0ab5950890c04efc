package node

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/machine"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// A node with an empty cache, no model and no run becomes available, once, and
// says what it is and what it has.
func TestANodeIsAvailableOnceEveryFactIsProven(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.DataDir = t.TempDir()
	n := o.run(cfg)
	n.available(1)
	if proven := count[event.FactProven](n); proven != 8 {
		t.Errorf("%d facts were told", proven)
	}
	first := o.told(n.id)[0]
	a := first.GetNodeAvailable()
	if a == nil || first.GetSequence() != 1 || controlpb.Boot(first.GetBootId()) != n.boot || n.boot.IsZero() || a.GetAttempt() != 1 {
		t.Fatalf("the first report is %v", first)
	}
	if _, measured := machine.MeasureMemory(); len(a.GetDevices()) != 1 || measured && (a.GetMemoryTotalBytes() == 0 || a.GetMemoryAvailableBytes() == 0) {
		t.Errorf("its resources are %v", a)
	}
	if v := a.GetVersions(); v.GetEngine() != "fake" || v.GetMuster() != "test" || v.GetPlatform() != platform {
		t.Errorf("its versions are %v", v)
	}
	if !slices.Equal(a.GetAddresses(), o.addresses(n.id)) || len(a.GetAddresses()) != 1 || a.GetWorkerPolicy() != controlpb.WorkerPolicy_WORKER_POLICY_PROVEN {
		t.Errorf("it says %v", a)
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if o.reported(n.id, isAvailable) != 1 || o.reported(n.id, isLeft) != 1 || o.reported(n.id, isFaulted) != 0 || len(o.told(n.id)) != 2 {
		t.Errorf("reports: %v", o.told(n.id))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if held, err := os.ReadDir(cfg.DataDir); err != nil || len(held) != 2 || held[0].Name() != lockName || held[1].Name() != statusName || o.reads != 0 {
		t.Errorf("weights were not needed: %d streams, %v, %v", o.reads, held, err)
	}
}

// The event has no place for a model, a layer, a stage or an edge: what it says
// is this list, and a field more is to be weighed against the contract.
func TestAvailabilityHasNoPlaceForModelsOrLayers(t *testing.T) {
	var names []string
	var collect func(m protoreflect.MessageDescriptor)
	collect = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			names = append(names, string(f.FullName().Parent().Name())+"."+string(f.Name()))
			if f.Message() != nil {
				collect(f.Message())
			}
		}
	}
	collect((&controlpb.NodeAvailable{}).ProtoReflect().Descriptor())
	want := []string{
		"NodeAvailable.attempt", "NodeAvailable.addresses", "NodeAvailable.memory_total_bytes", "NodeAvailable.memory_available_bytes",
		"NodeAvailable.devices", "Device.kind", "Device.name", "Device.description", "Device.memory_free_bytes", "Device.memory_total_bytes",
		"NodeAvailable.versions", "Versions.muster", "Versions.engine", "Versions.platform", "Versions.backend", "NodeAvailable.worker_policy",
	}
	if !slices.Equal(names, want) {
		t.Errorf("NodeAvailable says\n%q, want\n%q", names, want)
	}
}

// No stage is taken, nor even promised, before the node is available, nor after
// it has faulted.
func TestNoStageBeforeTheNodeIsAvailable(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpTrial), Do: fakeworker.Hang})
	cfg.Within.Within[boot.Worker] = wait
	n := o.run(cfg)
	n.until("everything proven but the worker and provisioning", func() bool { return count[event.FactProven](n) == 6 })
	n.id, n.boot = n.status().Node, n.status().Boot
	refused := func(when string) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			order := o.plan(n).order(0)
			order.DryRun = dry
			_, err := o.control.Call(t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Provision{Provision: order}})
			if !errors.Is(err, fault.StageNodeUnavailable) {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	refused("while the worker is proven")
	if count[event.NodeBecameAvailable](n) != 0 || n.status().Stage != nil {
		t.Errorf("the node is %+v", n.status())
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}

	cfg = o.config(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3})
	n = o.run(cfg)
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	n.id, n.boot = n.status().Node, n.status().Boot
	o.until("a hello", func() bool { return len(o.addresses(n.id)) > 0 })
	refused("after its fault")
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// A handler that would give a stage away before the node is available, or that
// objects for another reason, is a fault of the fact.
func TestAHandlerThatWouldProvisionEarlyIsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*node)
		code  fault.Code
	}{
		"it says yes": {func(n *node) {
			n.stage, _ = stage.Step(n.stage, stage.AvailabilityChanged{Available: true}, 0)
		}, fault.NodeHandlerBroken},
		"it is of another boot": {func(n *node) { n.stage = stage.New(stage.Settings{}, id.BootID{9}) }, fault.StageBootMismatched},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			n := o.begin(o.config(fakeworker.Knobs{}), true, c.spoil)
			n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
			if f := latest[event.NodeFaulted](n); f.Fact != boot.Provisioning.String() || f.Fault.Code != c.code {
				t.Errorf("%s faulted: %v", f.Fact, f.Fault)
			}
			if err := n.end(); err != nil {
				t.Error(err)
			}
			if count[event.NodeBecameAvailable](n) != 0 || o.reported(n.status().Node, isAvailable) != 0 {
				t.Error("the node was available")
			}
		})
	}
}

// A stage of a node whose worker was deferred waits for the worker to have
// proven itself: it is neither loaded nor ready before.
func TestADeferredStageIsNotReadyBeforeItsWorker(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{At: fakeworker.On(wire.OpTrial), Do: fakeworker.Hang})
	cfg.DeferWorker, cfg.Phases.Preparing = true, time.Second
	n := o.run(cfg)
	n.available(1)
	r := o.plan(n)
	if err := r.provision(0); err != nil {
		t.Fatal(err)
	}
	o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
	if f := r.stageFault(n); f == nil || f.Code != fault.StagePreparationOverdue {
		t.Errorf("the stage faulted: %v", f)
	}
	early := func(m *controlpb.Report) bool {
		p := m.GetStageProgress().GetPhase()
		return r.isReady(m) || p != "" && p != stage.Preparing.String()
	}
	if o.reported(n.id, early) != 0 {
		t.Errorf("the stage went on without a worker: %v", o.told(n.id))
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
