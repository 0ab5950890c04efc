package controlpb_test

import (
	"bytes"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

var (
	nodeID = id.NodeID{1, 2, 3}
	bootID = id.BootID{4, 5, 6}
	runID  = id.RunID{0x01, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80, 1}
	edgeID = id.EdgeID{0x01, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80, 2}

	node = controlpb.ID(nodeID)
	boot = controlpb.ID(bootID)
	run  = controlpb.ID(runID)
	edge = controlpb.ID(edgeID)

	digest = controlpb.Sum([32]byte{7})
)

func someFault() *controlpb.Fault {
	return controlpb.FaultOf(fault.New(fault.ArenaSpaceShort, "arena", "need", "3 MiB"))
}

func facts() *controlpb.Facts {
	return &controlpb.Facts{Attempt: 1, Facts: []*controlpb.FactState{
		{Name: "arena", State: controlpb.FactState_STATE_PROVEN, SinceMillis: 12, Detail: "3 MiB mapped"},
		{Name: "worker", State: controlpb.FactState_STATE_FAILED, Fault: someFault()},
	}}
}

func peers() []*controlpb.Peer {
	return []*controlpb.Peer{
		{NodeId: node, Addresses: []string{"10.0.0.1:6878"}, Name: "left"},
		{NodeId: controlpb.ID(id.NodeID{9}), Name: "right"},
	}
}

func provision() *controlpb.Provision {
	return &controlpb.Provision{
		RunId: run, Attempt: 1, BootId: boot,
		Model: &controlpb.ModelSource{
			Name: "tale", Revision: "abc123", ManifestJson: []byte(`{}`),
			Parts: []*controlpb.Part{{SizeBytes: 10, Path: "tale.gguf"}, {SizeBytes: 20}},
		},
		Layers: controlpb.LayersOf([2]int{3, 6}), Stage: 1, Stages: 3,
		Recipe: controlpb.RecipeOf(wire.Recipe{Context: 512, Slots: 4, Chunk: 128, KVType: "f16", FlashAttention: "auto"}),
		In:     &controlpb.EdgeSpec{EdgeId: edge, PeerId: node},
		Out:    &controlpb.EdgeSpec{EdgeId: edge, PeerId: node, Addresses: []string{"10.0.0.2:6878"}},
		Deadlines: &controlpb.StageDeadlines{
			WeightsMicros: controlpb.Micros(time.Minute), LoadMicros: 1, ConnectMicros: 1, TearDownMicros: 1, AdmitMicros: 1,
		},
		Epoch: 3,
	}
}

// shard is an order of no run.
func shard() *controlpb.Provision {
	p := provision()
	p.RunId, p.Attempt, p.In, p.Out = nil, 0, nil, nil
	return p
}

// requests has a sound request for each body, by its op; reports are there by
// the event they tell of.
func requests() map[string]*controlpb.Request {
	all := map[string]*controlpb.Request{
		"hello": {Body: &controlpb.Request_Hello{Hello: &controlpb.Hello{
			BootId: boot, Addresses: []string{"10.0.0.1:6878"}, Version: "v1", Platform: "linux/amd64",
		}}},
		"ping":      {Body: &controlpb.Request_Ping{Ping: &controlpb.Ping{Nonce: 7, BootId: boot}}},
		"peers":     {Body: &controlpb.Request_Peers{Peers: &controlpb.Peers{Epoch: 3, Peers: peers()}}},
		"provision": {Body: &controlpb.Request_Provision{Provision: provision()}},
		"tear_down": {Body: &controlpb.Request_TearDown{TearDown: &controlpb.TearDown{RunId: run, Attempt: 1, BootId: boot, Reason: someFault()}}},
		"leave":     {Body: &controlpb.Request_Leave{Leave: &controlpb.Leave{Reason: "stopped"}}},
		"offer":     {Body: &controlpb.Request_Offer{Offer: &controlpb.Offer{BootId: boot, Model: "tale", Layers: controlpb.LayersOf([2]int{3, 6}), Attempt: 1}}},
	}
	for name, report := range reports() {
		report.BootId, report.Sequence = boot, 1
		all["report of "+name] = &controlpb.Request{Body: &controlpb.Request_Report{Report: report}}
	}
	return all
}

func reports() map[string]*controlpb.Report {
	return map[string]*controlpb.Report{
		"node_available": {Event: &controlpb.Report_NodeAvailable{NodeAvailable: &controlpb.NodeAvailable{
			Attempt: 1, Addresses: []string{"10.0.0.1:6878"}, MemoryTotalBytes: 1 << 34, MemoryAvailableBytes: 1 << 33,
			Devices:      controlpb.DevicesOf([]wire.Device{{Kind: "cpu", Name: "CPU", Description: "a processor"}}),
			Versions:     &controlpb.Versions{Muster: "v1", Engine: "0.4.0", Platform: "linux/amd64", Backend: digest},
			WorkerPolicy: controlpb.WorkerPolicy_WORKER_POLICY_PROVEN,
		}}},
		"node_faulted":   {Event: &controlpb.Report_NodeFaulted{NodeFaulted: &controlpb.NodeFaulted{Attempt: 1, Fault: someFault()}}},
		"node_left":      {Event: &controlpb.Report_NodeLeft{NodeLeft: &controlpb.NodeLeft{}}},
		"facts":          {Event: &controlpb.Report_Facts{Facts: facts()}},
		"stage_progress": {Event: &controlpb.Report_StageProgress{StageProgress: &controlpb.StageProgress{RunId: run, Attempt: 1, Phase: "weights", Done: 1, Total: 2}}},
		"stage_ready":    {Event: &controlpb.Report_StageReady{StageReady: &controlpb.StageReady{RunId: run, Attempt: 1, Layers: controlpb.LayersOf([2]int{0, 3}), TokenMicros: 9}}},
		"stage_faulted":  {Event: &controlpb.Report_StageFaulted{StageFaulted: &controlpb.StageFaulted{RunId: run, Attempt: 1, Fault: someFault()}}},
		"offer_changed": {Event: &controlpb.Report_OfferChanged{OfferChanged: &controlpb.OfferChanged{
			Layers: controlpb.LayersOf([2]int{0, 3}), Phase: "tearing down", Fault: someFault(), AgainMicros: 5,
		}}},
		"stage_torn_down": {Event: &controlpb.Report_StageTornDown{StageTornDown: &controlpb.StageTornDown{RunId: run, Attempt: 1}}},
	}
}

// replies has a sound reply for each body, by the op it answers.
func replies() map[string]*controlpb.Reply {
	return map[string]*controlpb.Reply{
		"hello": {Body: &controlpb.Reply_Hello{Hello: &controlpb.HelloReply{
			Pool: "attic", Epoch: 3, BootId: boot, Peers: peers(),
			Swim: &controlpb.SwimSettings{Profile: "local", ProbeIntervalMicros: 200_000, SuspicionMultiplier: 4},
		}}},
		"report":    {Body: &controlpb.Reply_Report{Report: &controlpb.ReportReply{}}},
		"ping":      {Body: &controlpb.Reply_Ping{Ping: &controlpb.Pong{Nonce: 7, BootId: boot, Facts: facts()}}},
		"peers":     {Body: &controlpb.Reply_Peers{Peers: &controlpb.PeersReply{BootId: boot, Epoch: 3}}},
		"provision": {Body: &controlpb.Reply_Provision{Provision: &controlpb.ProvisionReply{BootId: boot}}},
		"tear_down": {Body: &controlpb.Reply_TearDown{TearDown: &controlpb.TearDownReply{BootId: boot}}},
		"leave":     {Body: &controlpb.Reply_Leave{Leave: &controlpb.LeaveReply{}}},
		"offer":     {Body: &controlpb.Reply_Offer{Offer: &controlpb.OfferReply{Shard: shard()}}},
	}
}

func TestWhatIsSoundPasses(t *testing.T) {
	for name, m := range requests() {
		if err := m.Check(); err != nil {
			t.Errorf("request %s: %v", name, err)
		}
	}
	for name, m := range replies() {
		if err := m.Check(); err != nil {
			t.Errorf("reply to %s: %v", name, err)
		}
	}
	dry := &controlpb.Request{Body: &controlpb.Request_Provision{Provision: &controlpb.Provision{BootId: boot, DryRun: true}}}
	if err := dry.Check(); err != nil {
		t.Errorf("a dry run without a stage: %v", err)
	}
	whoever := &controlpb.Request{Body: &controlpb.Request_Ping{Ping: &controlpb.Ping{Nonce: 1}}}
	if err := whoever.Check(); err != nil {
		t.Errorf("a ping to whichever boot lives: %v", err)
	}
	if bytes.Equal(run, edge) {
		t.Fatal("ids of the test are alike")
	}
}
