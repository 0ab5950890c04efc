package orch

import (
	"context"
	"time"

	"muster/internal/core/admit"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/shard"
	"muster/internal/testkit/capability"
	"muster/internal/tracker/api"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// fakeStage passes records on as a stage would, and draws as the next token the
// number of its position.
type fakeStage struct {
	order   *controlpb.Provision
	in, out *edge.Meter
	cancel  context.CancelFunc
	ended   chan struct{}
}

// taleWidth and taleVocabulary are those of the built-in model.
const (
	taleWidth      = 128
	taleVocabulary = 1280
)

func (s *fakeStage) figures() *controlpb.StageFigures {
	if s == nil {
		return nil
	}
	side := func(m *edge.Meter) *controlpb.EdgeFigures {
		f := m.Read()
		return &controlpb.EdgeFigures{Records: f.Records, Bytes: f.Bytes, Phase: f.Phase.String(), StillMicros: f.Still.Microseconds()}
	}
	return &controlpb.StageFigures{
		RunId: s.order.GetRunId(), Attempt: s.order.GetAttempt(), Phase: "serving", In: side(s.in), Out: side(s.out),
	}
}

func (n *fakeNode) provision(p *controlpb.Provision) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.dead:
		return fault.New(fault.NodeBootRetired, "fake", "name", n.name)
	case n.refuse != nil:
		return n.refuse
	case n.stage != nil:
		return fault.New(fault.RunPlanInvalid, "fake", "what", "a stage is held")
	case controlpb.Boot(p.GetBootId()) != n.id:
		return fault.New(fault.NodeBootRetired, "fake", "name", n.name)
	}
	ctx, cancel := context.WithCancel(n.ctx)
	s := &fakeStage{order: p, in: &edge.Meter{}, out: &edge.Meter{}, cancel: cancel, ended: make(chan struct{})}
	n.stage = s
	n.tasks.Go(func() {
		defer close(s.ended)
		if err := n.serve(ctx, s); err != nil && ctx.Err() == nil {
			_ = n.report(&controlpb.Report{Event: &controlpb.Report_StageFaulted{StageFaulted: &controlpb.StageFaulted{
				RunId: p.GetRunId(), Attempt: p.GetAttempt(), Fault: controlpb.FaultOf(err),
			}}})
		}
	})
	return nil
}

// breakStage ends the stage as a worker's death does.
func (n *fakeNode) breakStage(f *fault.Fault) error {
	n.mu.Lock()
	s := n.stage
	n.mu.Unlock()
	s.cancel()
	<-s.ended
	return n.report(&controlpb.Report{Event: &controlpb.Report_StageFaulted{StageFaulted: &controlpb.StageFaulted{
		RunId: s.order.GetRunId(), Attempt: s.order.GetAttempt(), Fault: controlpb.FaultOf(f),
	}}})
}

func (n *fakeNode) tearDown(t *controlpb.TearDown) (gone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stage
	if s == nil || controlpb.Run(s.order.GetRunId()) != controlpb.Run(t.GetRunId()) {
		return true
	}
	if n.keeps || n.dead {
		return false
	}
	n.stage = nil
	n.tasks.Go(func() {
		s.cancel()
		<-s.ended
		_ = n.report(&controlpb.Report{Event: &controlpb.Report_StageTornDown{StageTornDown: &controlpb.StageTornDown{
			RunId: t.GetRunId(), Attempt: t.GetAttempt(),
		}}})
	})
	return false
}

func (n *fakeNode) serve(ctx context.Context, s *fakeStage) error {
	p := s.order
	last := p.GetStage()+1 == p.GetStages()
	side := func(e *controlpb.EdgeSpec, kind wire.Kind, m *edge.Meter) edge.Config {
		return edge.Config{
			Run: controlpb.Run(p.GetRunId()), Attempt: p.GetAttempt(), Edge: controlpb.Edge(e.GetEdgeId()), Peer: controlpb.Node(e.GetPeerId()),
			Kind: kind, Meter: m, Limits: shard.Limits(p.GetRecipe().Wire(), taleWidth, taleVocabulary),
		}
	}
	in, out := side(p.GetIn(), wire.KindRows, s.in), side(p.GetOut(), wire.KindRows, s.out)
	if p.GetStage() == 0 {
		in.Kind = wire.KindTokens
	}
	if last {
		out.Kind = wire.KindAnswers
	}
	arrival, err := n.table.Expect(ctx, edge.Expected{Edge: in.Edge, Peer: in.Peer, Run: in.Run, Attempt: in.Attempt})
	if err != nil {
		return err
	}
	defer arrival.Close()
	w, raw, err := n.openEdge(ctx, out)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close(ctx) }()
	r, err := arrival.Wait(ctx)
	if err != nil {
		return err
	}
	reader := edge.NewReader(in, r)
	defer reader.Close()
	n.mu.Lock()
	unready := n.unready
	n.mu.Unlock()
	if unready {
		<-ctx.Done()
		return nil
	}
	if err := n.register(ctx, admit.ForStage); err != nil {
		return err
	}
	if err := n.report(&controlpb.Report{Event: &controlpb.Report_StageReady{StageReady: &controlpb.StageReady{
		RunId: p.GetRunId(), Attempt: p.GetAttempt(), Layers: p.GetLayers(), ResidentBytes: 1 << 20, TokenMicros: 100, Threads: 1,
	}}}); err != nil {
		return err
	}
	var rec wire.Record
	for {
		if err := reader.Receive(ctx, &rec); err != nil {
			return err
		}
		n.mu.Lock()
		stuck, halves, shut := n.stuck, n.halves, n.shut
		n.mu.Unlock()
		if stuck {
			<-ctx.Done()
			return nil
		}
		answer := forward(&rec, last)
		if halves {
			return half(ctx, raw, answer)
		}
		if err := w.Send(ctx, answer); err != nil {
			return err
		}
		if shut {
			<-ctx.Done()
			return nil
		}
	}
}

// half sends the first half of a record, and keeps the stream.
func half(ctx context.Context, to endpoint.Sender, r *wire.Record) error {
	b, err := r.Append(nil)
	if err != nil {
		return err
	}
	if _, err := to.Write(b[:len(b)/2]); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// openEdge opens the edge to the next until it is there.
func (n *fakeNode) openEdge(ctx context.Context, cfg edge.Config) (*edge.Writer, endpoint.Sender, error) {
	for {
		s, err := n.endpoint.OpenUni(ctx, cfg.Peer, edge.Protocol)
		if err == nil {
			w, err := edge.NewWriter(ctx, cfg, s)
			return w, s, err
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func forward(in *wire.Record, last bool) *wire.Record {
	out := &wire.Record{ID: in.ID, Sequence: in.Sequence, Items: in.Items}
	if !last {
		out.Kind, out.Width = wire.KindRows, taleWidth
		out.Rows = make([]float32, in.TokenCount()*taleWidth)
		return out
	}
	out.Kind = wire.KindAnswers
	for i := range out.Items {
		it := &out.Items[i]
		if it.Marks&wire.MarkAnswer != 0 {
			out.Answers = append(out.Answers, wire.Answer{Token: it.Position + int32(it.Count)})
		}
		it.Marks &^= wire.MarkOpen
		it.Extra = nil
	}
	return out
}

// register takes what the node holds to a route, by a forward that never was, and
// keeps its lease up.
func (n *fakeNode) register(ctx context.Context, as admit.Purpose) error {
	n.mu.Lock()
	unproven, spoil := n.unproven, n.spoil
	n.reports++
	sequence := n.reports
	n.mu.Unlock()
	if unproven {
		return nil
	}
	c, err := n.tracker.Challenge(ctx, n.id)
	if err != nil {
		return err
	}
	want, err := registrar{n.world}.Wanted(ctx, admit.Report{Binding: admit.Binding{Purpose: as, Node: idOf(n.key)}})
	if err != nil {
		return err
	}
	report := capability.Passed(want, c.Challenge, sequence)
	if spoil != nil {
		spoil(&report)
	}
	signed, refused := admit.Sign(n.key, report)
	if refused != nil {
		return refused
	}
	lease, err := n.tracker.Register(ctx, signed)
	if err != nil {
		return err
	}
	n.tasks.Go(func() {
		for sleep(ctx, time.Duration(lease.RenewMS)*time.Millisecond) {
			_, err := n.tracker.Renew(ctx, api.RenewRequest{Boot: n.id, Lease: lease.Lease, Digests: report.Digests})
			if err != nil {
				return // the run ends by it
			}
		}
	})
	return nil
}
