package controlpb_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"muster/internal/id"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// A body that Check does not know would be refused from everybody, and one
// without an answer of its number could not be answered.
func TestEveryBodyIsKnownAndHasItsAnswer(t *testing.T) {
	request := oneof(t, &controlpb.Request{}, "body")
	reply := oneof(t, &controlpb.Reply{}, "body")
	if request.Fields().Len() != reply.Fields().Len() {
		t.Errorf("there are %d questions and %d answers", request.Fields().Len(), reply.Fields().Len())
	}
	answers := replies()
	for name, m := range requests() {
		op := m.Op()
		if !strings.HasPrefix(name, op) {
			t.Errorf("%s has the op %q", name, op)
		}
		for answered, a := range answers {
			if a.Answers(m) != (answered == op) {
				t.Errorf("the answer to %s answers %s: %t", answered, op, a.Answers(m))
			}
		}
	}
	for _, body := range []struct {
		m     proto.Message
		oneof protoreflect.OneofDescriptor
		check func(proto.Message) error
	}{
		{&controlpb.Request{}, request, func(m proto.Message) error { return m.(*controlpb.Request).Check() }},
		{&controlpb.Reply{}, reply, func(m proto.Message) error { return m.(*controlpb.Reply).Check() }},
		{&controlpb.Report{BootId: boot, Sequence: 1}, oneof(t, &controlpb.Report{}, "event"), func(m proto.Message) error {
			return (&controlpb.Request{Body: &controlpb.Request_Report{Report: m.(*controlpb.Report)}}).Check()
		}},
	} {
		for i := range body.oneof.Fields().Len() {
			field := body.oneof.Fields().Get(i)
			m := proto.Clone(body.m)
			m.ProtoReflect().Set(field, m.ProtoReflect().NewField(field))
			if err := body.check(m); err != nil && strings.Contains(err.Error(), "none that this build knows") {
				t.Errorf("Check does not know %s", field.FullName())
			}
		}
	}
	if (&controlpb.Request{}).Op() != "" || (&controlpb.Reply{}).Answers(&controlpb.Request{}) {
		t.Error("nothing is taken for a body")
	}
}

func oneof(t *testing.T, m proto.Message, name protoreflect.Name) protoreflect.OneofDescriptor {
	t.Helper()
	d := m.ProtoReflect().Descriptor().Oneofs().ByName(name)
	if d == nil {
		t.Fatalf("there is no %s", name)
	}
	return d
}

func TestUnsoundRequestsAreNamedByTheirField(t *testing.T) {
	long := strings.Repeat("x", 5000)
	cases := []struct {
		of     string
		change func(*controlpb.Request)
		want   string
	}{
		{"hello", func(m *controlpb.Request) { m.DeadlineMicros = -5 }, "deadline_micros is -5"},
		{"hello", func(m *controlpb.Request) { m.GetHello().BootId = nil }, "hello.boot_id has 0 bytes, a boot id has 16"},
		{"hello", func(m *controlpb.Request) { m.GetHello().BootId = make([]byte, 16) }, "hello.boot_id is all zero, which means none"},
		{"hello", func(m *controlpb.Request) { m.GetHello().Pool = long }, "hello.pool has 5000 bytes, at most 256 are taken"},
		{"hello", func(m *controlpb.Request) { m.GetHello().Addresses = make([]string, 17) }, "hello.addresses has 17 entries, at most 16 are taken"},
		{"hello", func(m *controlpb.Request) { m.GetHello().Addresses[0] = "" }, "hello.addresses is empty"},
		{"hello", func(m *controlpb.Request) { m.GetHello().Version = "" }, "hello.version is empty"},
		{"ping", func(m *controlpb.Request) { m.GetPing().BootId = []byte{1} }, "ping.boot_id has 1 bytes"},
		{"peers", func(m *controlpb.Request) { m.GetPeers().Peers[1].NodeId = []byte{1} }, "peers.peers[1].node_id has 1 bytes, a node id has 32"},
		{"peers", func(m *controlpb.Request) { m.GetPeers().Peers[1].NodeId = node }, "peers.peers[1].node_id is " + nodeID.Short() + ", which stands there twice"},
		{"peers", func(m *controlpb.Request) { m.GetPeers().Peers[0].Name = long }, "peers.peers[0].name has 5000 bytes"},
		{"leave", func(m *controlpb.Request) { m.GetLeave().Reason = long }, "leave.reason has 5000 bytes"},
		{"tear_down", func(m *controlpb.Request) { m.GetTearDown().RunId = boot }, "tear_down.run_id is no run id"},
		{"tear_down", func(m *controlpb.Request) { m.GetTearDown().Attempt = 0 }, "tear_down.attempt is 0, attempts begin with 1"},
		{"tear_down", func(m *controlpb.Request) { m.GetTearDown().Reason.Code = "" }, "tear_down.reason.code is empty"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().BootId = nil }, "provision.boot_id has 0 bytes"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Model = nil }, "provision.model.revision is empty"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Model.Parts = nil }, "provision.model.parts is empty"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Model.Parts[1].SizeBytes = -1 }, "provision.model.parts[1].size_bytes is -1"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Model.ManifestJson = nil }, "provision.model.manifest_json is empty"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Layers.End = 3 }, "provision.layers is [3,3), which holds no layers"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Layers = controlpb.LayersOf([2]int{-1, 3}) }, "provision.layers is [4294967295,3)"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Stage = 3 }, "provision.stage is 3 of 3, counted from 0"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Stages = math.MaxUint32 }, "provision.stage is one of 4294967295"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Recipe = nil }, "provision.recipe is missing"},
		{"provision", func(m *controlpb.Request) {
			m.GetProvision().Recipe = controlpb.RecipeOf(wire.Recipe{Context: -1, KVType: "f16", FlashAttention: "on"})
		}, "provision.recipe.context is 4294967295, at most 2147483647 is taken"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().In.EdgeId = make([]byte, 16) }, "provision.in.edge_id is no edge id"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Out.PeerId = make([]byte, 32) }, "provision.out.peer_id is all zero"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Out = nil }, "provision.out.edge_id has 0 bytes, an edge id has 16"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Deadlines.LoadMicros = -1 }, "provision.deadlines.load_micros is -1"},
		{"report of facts", func(m *controlpb.Request) { m.GetReport().Sequence = 0 }, "report.sequence is 0"},
		{"report of facts", func(m *controlpb.Request) { m.GetReport().Event = nil }, "report.event is none that this build knows"},
		{"report of facts", func(m *controlpb.Request) { m.GetReport().GetFacts().Facts[0].State = 77 }, "report.facts.facts[0].state is 77"},
		{"report of facts", func(m *controlpb.Request) { m.GetReport().GetFacts().Facts[0].Fault = someFault() }, "report.facts.facts[0].fault stands beside a fact that did not fail"},
		{"report of facts", func(m *controlpb.Request) { m.GetReport().GetFacts().Facts[1].Fault = nil }, "report.facts.facts[1].fault is missing"},
		{"report of facts", func(m *controlpb.Request) {
			m.GetReport().GetFacts().Facts = make([]*controlpb.FactState, 65)
		}, "report.facts.facts has 65 entries"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Deadlines.AdmitMicros = -1 }, "provision.deadlines.admit_micros is -1"},
		{"provision", func(m *controlpb.Request) { m.GetProvision().Epoch = 0 }, "provision.epoch"},
		{"report of node_available", func(m *controlpb.Request) { m.GetReport().GetNodeAvailable().Versions.Backend = nil }, "report.node_available.versions.backend"},
		{"report of node_available", func(m *controlpb.Request) { m.GetReport().GetNodeAvailable().Versions.Backend = digest[1:] }, "report.node_available.versions.backend"},
		{"report of node_available", func(m *controlpb.Request) { m.GetReport().GetNodeAvailable().WorkerPolicy = 0 }, "report.node_available.worker_policy is 0"},
		{"report of node_available", func(m *controlpb.Request) { m.GetReport().GetNodeAvailable().Versions = nil }, "report.node_available.versions.muster is empty"},
		{"report of node_available", func(m *controlpb.Request) { m.GetReport().GetNodeAvailable().Devices[0].Kind = "" }, "report.node_available.devices[0].kind is empty"},
		{"report of node_faulted", func(m *controlpb.Request) { m.GetReport().GetNodeFaulted().Fault = nil }, "report.node_faulted.fault is missing"},
		{"report of stage_progress", func(m *controlpb.Request) { m.GetReport().GetStageProgress().Phase = "" }, "report.stage_progress.phase is empty"},
		{"report of stage_ready", func(m *controlpb.Request) { m.GetReport().GetStageReady().Layers = nil }, "report.stage_ready.layers is [0,0)"},
		{"report of stage_faulted", func(m *controlpb.Request) { m.GetReport().GetStageFaulted().RunId = nil }, "report.stage_faulted.run_id has 0 bytes"},
		{"offer", func(m *controlpb.Request) { m.GetOffer().Model = "" }, "offer.model is empty"},
		{"offer", func(m *controlpb.Request) { m.GetOffer().Layers = nil }, "offer.layers is [0,0)"},
		{"offer", func(m *controlpb.Request) { m.GetOffer().BootId = nil }, "offer.boot_id has 0 bytes"},
		{"offer", func(m *controlpb.Request) { m.GetOffer().Attempt = 0 }, "offer.attempt is 0"},
		{"report of offer_changed", func(m *controlpb.Request) { m.GetReport().GetOfferChanged().AgainMicros = -1 }, "report.offer_changed.again_micros is -1"},
		{"report of offer_changed", func(m *controlpb.Request) { m.GetReport().GetOfferChanged().Phase = "" }, "report.offer_changed.phase is empty"},
		{"report of offer_changed", func(m *controlpb.Request) { m.GetReport().GetOfferChanged().Fault.Code = "" }, "report.offer_changed.fault.code is empty"},
		{"report of stage_torn_down", func(m *controlpb.Request) { m.GetReport().GetStageTornDown().Attempt = 0 }, "report.stage_torn_down.attempt is 0"},
	}
	for _, c := range cases {
		m := requests()[c.of]
		c.change(m)
		wantField(t, m.Check(), c.want)
	}
}

func TestUnsoundRepliesAreNamedByTheirField(t *testing.T) {
	cases := []struct {
		of     string
		change func(*controlpb.Reply)
		want   string
	}{
		{"hello", func(m *controlpb.Reply) { m.GetHello().Pool = "" }, "hello.pool is empty"},
		{"hello", func(m *controlpb.Reply) { m.GetHello().Peers[0].NodeId = nil }, "hello.peers[0].node_id has 0 bytes"},
		{"hello", func(m *controlpb.Reply) { m.GetHello().Swim = nil }, "hello.swim is missing"},
		{"hello", func(m *controlpb.Reply) { m.GetHello().Swim.ProbeTimeoutMicros = -1 }, "hello.swim.probe_timeout_micros is -1"},
		{"ping", func(m *controlpb.Reply) { m.GetPing().Facts.Attempt = 0 }, "ping.facts.attempt is 0"},
		{"peers", func(m *controlpb.Reply) { m.GetPeers().BootId = nil }, "peers.boot_id has 0 bytes"},
		{"provision", func(m *controlpb.Reply) { m.GetProvision().BootId = []byte{1} }, "provision.boot_id has 1 bytes"},
		{"tear_down", func(m *controlpb.Reply) { m.GetTearDown().BootId = nil }, "tear_down.boot_id has 0 bytes"},
		{"leave", func(m *controlpb.Reply) { m.Fault = someFault() }, "body stands beside a fault"},
		{"leave", func(m *controlpb.Reply) { m.Body = nil }, "body is none that this build knows"},
		{"leave", func(m *controlpb.Reply) {
			m.Body, m.Fault = nil, &controlpb.Fault{Code: "x.y", Attrs: []*controlpb.Attr{{}}}
		}, "fault.attrs.key is empty"},
	}
	for _, c := range cases {
		m := replies()[c.of]
		c.change(m)
		wantField(t, m.Check(), c.want)
	}
}

// What the text form of an id refuses must not come in as bytes.
func TestRunAndEdgeIdsAreUUIDsOfVersion7(t *testing.T) {
	other := runID
	other[6] = 0x40
	m := requests()["tear_down"]
	m.GetTearDown().RunId = controlpb.ID(other)
	wantField(t, m.Check(), "tear_down.run_id is no run id")
	m = requests()["provision"]
	m.GetProvision().In.EdgeId = controlpb.ID(id.EdgeID(other))
	wantField(t, m.Check(), "provision.in.edge_id is no edge id")
}

func wantField(t *testing.T, err error, want string) {
	t.Helper()
	var field *controlpb.FieldError
	if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
