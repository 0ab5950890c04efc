package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"

	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/gguf"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/shard"
	"muster/internal/testkit"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

var recipe = wire.Recipe{Context: 128, Slots: 1, Chunk: 16, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true}

// trialRun is a run of the built-in model over some nodes, as an orchestrator
// would lead it.
type trialRun struct {
	t       testing.TB
	o       *orchestrator
	run     id.RunID
	nodes   []*running
	edges   []id.EdgeID // edge i leads into stage i; the last one out
	man     *gguf.Manifest
	model   *gguf.Model
	source  *controlpb.ModelSource
	stages  [][2]int
	arrival *edge.Arrival
	first   endpoint.Sender // of the edge into the first stage
	pipe    *edge.Pipe
}

func (o *orchestrator) plan(nodes ...*running) *trialRun {
	o.t.Helper()
	f, err := gguf.Read(bytes.NewReader(o.published()), int64(len(o.published())), "tale")
	if err != nil {
		o.t.Fatal(err)
	}
	man, err := gguf.BuildManifest(o.t.Context(), f, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	model, err := gguf.Inspect(f)
	if err != nil {
		o.t.Fatal(err)
	}
	sent, err := json.Marshal(man)
	if err != nil {
		o.t.Fatal(err)
	}
	r := &trialRun{t: o.t, o: o, nodes: nodes, man: man, model: model}
	r.source = &controlpb.ModelSource{
		Name: "tale", Revision: man.Revision, ManifestJson: sent,
		Parts: []*controlpb.Part{{SizeBytes: int64(len(o.published()))}},
	}
	if r.run, err = id.NewRunID(rand.Reader); err != nil {
		o.t.Fatal(err)
	}
	ranges, err := gguf.EvenSplit(model, max(1, len(nodes)))
	if err != nil {
		o.t.Fatal(err)
	}
	for i := range len(nodes) + 1 {
		e, err := id.NewEdgeID(rand.Reader)
		if err != nil {
			o.t.Fatal(err)
		}
		r.edges = append(r.edges, e)
		if i < len(nodes) {
			r.stages = append(r.stages, [2]int{ranges[i].Start, ranges[i].End})
		}
	}
	return r
}

func (r *trialRun) order(i int) *controlpb.Provision {
	peer := func(at int) *controlpb.EdgeSpec {
		s := &controlpb.EdgeSpec{PeerId: controlpb.ID(r.o.endpoint.ID()), Addresses: []string{r.o.endpoint.Addr().String()}}
		if at >= 0 && at < len(r.nodes) {
			s.PeerId, s.Addresses = controlpb.ID(r.nodes[at].id), r.o.addresses(r.nodes[at].id)
		}
		return s
	}
	in, out := peer(i-1), peer(i+1)
	in.EdgeId, out.EdgeId = controlpb.ID(r.edges[i]), controlpb.ID(r.edges[i+1])
	p := &controlpb.Provision{
		RunId: controlpb.ID(r.run), Attempt: 1, BootId: controlpb.ID(r.nodes[i].boot), Model: r.source,
		Layers: controlpb.LayersOf(r.stages[i]), Stage: uint32(i), Stages: uint32(len(r.nodes)),
		Recipe: controlpb.RecipeOf(recipe), In: in, Out: out, Epoch: 1,
	}
	if b := r.o.probe; b != nil {
		p.Probe = &controlpb.Probe{Digest: digestOf(b), SizeBytes: int64(len(b))}
	}
	return p
}

func (r *trialRun) provision(i int) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), wait)
	defer cancel()
	_, err := r.o.control.Call(ctx, r.nodes[i].id, &controlpb.Request{Body: &controlpb.Request_Provision{Provision: r.order(i)}})
	return err
}

// expect makes ready for what comes out of the last stage.
func (r *trialRun) expect() {
	r.t.Helper()
	last := len(r.nodes) - 1
	var err error
	r.arrival, err = r.o.edges.Expect(r.t.Context(), edge.Expected{Edge: r.edges[last+1], Peer: r.nodes[last].id, Run: r.run, Attempt: 1})
	if err != nil {
		r.t.Fatal(err)
	}
}

// form provisions all stages, joins the outer edges and waits until all are
// ready.
func (r *trialRun) form() {
	r.t.Helper()
	last := len(r.nodes) - 1
	r.expect()
	for i := range r.nodes {
		if err := r.provision(i); err != nil {
			r.t.Fatal(err)
		}
	}
	s, err := r.o.endpoint.OpenUni(r.t.Context(), r.nodes[0].id, edge.Protocol)
	if err != nil {
		r.t.Fatal(err)
	}
	r.first = s
	cfg := edge.Config{Run: r.run, Attempt: 1, Limits: shard.Limits(recipe, r.model.Width, r.model.Vocabulary)}
	first, end := cfg, cfg
	first.Edge, first.Peer, first.Kind = r.edges[0], r.nodes[0].id, wire.KindTokens
	end.Edge, end.Peer, end.Kind = r.edges[last+1], r.nodes[last].id, wire.KindAnswers
	w, err := edge.NewWriter(r.t.Context(), first, s)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range r.nodes {
		r.o.until("StageReady", func() bool { return r.o.reported(n.id, r.isReady) == 1 })
	}
	back, err := r.arrival.Wait(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.pipe = edge.NewPipe(w, edge.NewReader(end, back))
}

func (r *trialRun) isReady(m *controlpb.Report) bool {
	return controlpb.Run(m.GetStageReady().GetRunId()) == r.run
}

func (r *trialRun) isFaulted(m *controlpb.Report) bool {
	return controlpb.Run(m.GetStageFaulted().GetRunId()) == r.run
}

func (r *trialRun) isTornDown(m *controlpb.Report) bool {
	return controlpb.Run(m.GetStageTornDown().GetRunId()) == r.run
}

func (r *trialRun) tell(n int) []int32 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), wait)
	defer cancel()
	s := infer.Serve(ctx, r.pipe, infer.Config{Recipe: recipe, Stages: len(r.nodes)})
	defer s.Close(context.Canceled)
	res, err := s.Generate(ctx, infer.Request{Prompt: []int32{1, 300, 301, 302, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, Sampling: infer.Greedy(), MaxTokens: n},
		func(wire.Answer) error { return nil })
	if err == nil {
		err = s.Drain(ctx)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Tokens
}

// end tears all down and waits until the nodes say that nothing is left.
func (r *trialRun) end() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), wait)
	defer cancel()
	for _, n := range r.nodes {
		_, err := r.o.control.Call(ctx, n.id, &controlpb.Request{Body: &controlpb.Request_TearDown{TearDown: &controlpb.TearDown{
			RunId: controlpb.ID(r.run), Attempt: 1, BootId: controlpb.ID(n.boot),
		}}})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	if r.pipe != nil {
		_ = r.pipe.Close(ctx) // the stages have let go, or do
	}
	r.arrival.Close()
	for _, n := range r.nodes {
		r.o.until("StageTornDown", func() bool { return r.o.reported(n.id, r.isTornDown) >= 1 })
	}
}

func TestOneStageServesAndTheNodeServesTheNextRun(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	var told [][]int32
	for range 2 {
		r := o.plan(n)
		r.form()
		told = append(told, r.tell(20))
		n.until("serving", func() bool { return n.status().Stage != nil && n.status().Stage.Phase == "serving" })
		r.end()
	}
	if len(told[0]) == 0 || !slices.Equal(told[0], told[1]) {
		t.Errorf("the runs told %v and %v", told[0], told[1])
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeBecameAvailable](n) != 1 || count[event.NodeFaulted](n) != 0 {
		t.Errorf("events: %+v", n.events)
	}
}

func TestStagesOfThreeNodesTellWhatOneTells(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	nodes := []*running{o.run(o.realConfig()), o.run(o.realConfig()), o.run(o.realConfig())}
	for _, n := range nodes {
		n.available(1)
	}
	o.introduce(nodes)
	one := o.plan(nodes[0])
	one.form()
	want := one.tell(30)
	one.end()
	three := o.plan(nodes...)
	three.form()
	if got := three.tell(30); !slices.Equal(got, want) {
		t.Errorf("three stages tell %v, one %v", got, want)
	}
	three.end()
	for _, n := range nodes {
		if err := n.end(); err != nil {
			t.Error(err)
		}
		if f := three.stageFault(n); f != nil {
			t.Errorf("a stage faulted: %v", f)
		}
	}
}

// introduce tells nodes of those that came later, as an orchestrator does.
func (o *orchestrator) introduce(nodes []*running) {
	o.t.Helper()
	o.mu.Lock()
	peers := o.peers()
	o.mu.Unlock()
	for _, n := range nodes {
		_, err := o.control.Call(o.t.Context(), n.id, &controlpb.Request{Body: &controlpb.Request_Peers{Peers: &controlpb.Peers{Epoch: 1, Peers: peers}}})
		if err != nil {
			o.t.Fatal(err)
		}
	}
}
