package orch

import (
	"context"
	"time"

	"muster/internal/core/run"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/shard"
	"muster/internal/wire"
)

// Edges: how long opening one may take, the pause before it is opened again,
// and how long that of the answers may still be missing once all are ready.
const (
	openWithin   = 3 * time.Second
	openPause    = 100 * time.Millisecond
	answerWithin = 5 * time.Second
)

// edgesJoined: both ends of the chain are this orchestrator's.
type edgesJoined struct {
	key    run.Key
	writer *edge.Writer
	reader edge.Receiver
}

// expectAnswers lets the last stage's edge in, from before it is provisioned.
func (m *mailbox) expectAnswers() {
	l := m.lead
	arrival, err := m.o.table.Expect(l.all, edge.Expected{
		Edge: l.edges[len(l.stages)], Peer: l.last().Node, Run: l.key.Run, Attempt: l.key.Attempt,
	})
	if err != nil {
		m.then(run.StageFaulted{Of: l.of(l.last()), Fault: fault.From(err)})
		return
	}
	l.arrival = arrival
}

func (l *lead) first() *placed { return l.stages[0] }
func (l *lead) last() *placed  { return l.stages[len(l.stages)-1] }

func (l *lead) of(s *placed) run.Of { return run.Of{Key: l.key, Node: s.Node, Boot: s.Boot} }

// edgeConfig is this side of the i-th edge.
func (o *Orch) edgeConfig(l *lead, i int) edge.Config {
	cfg := edge.Config{
		Run: l.key.Run, Edge: l.edges[i], Attempt: l.key.Attempt,
		Peer: l.first().Node, Kind: wire.KindTokens, Meter: &edge.Meter{},
		Limits: shard.Limits(o.model.recipe, o.model.facts.Width, o.model.facts.Vocabulary),
	}
	if i > 0 {
		cfg.Peer, cfg.Kind = l.last().Node, wire.KindAnswers
	}
	return cfg
}

// join opens the edge to the first stage, keeps it until every stage is ready,
// and takes the edge of the last.
func (o *Orch) join(l *lead) {
	w, f := o.openFirst(l)
	if f != nil {
		o.post(run.StageFaulted{Of: l.of(l.first()), Fault: f})
	}
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.live, answerWithin)
	defer cancel()
	r, err := l.arrival.Wait(ctx)
	if err != nil {
		_ = w.Close(l.live)
		if l.live.Err() == nil {
			o.post(run.StageFaulted{Of: l.of(l.last()), Fault: fault.From(err)})
		}
		return
	}
	o.post(edgesJoined{key: l.key, writer: w, reader: r})
}

// openFirst opens the first edge again and again: a stage that still loads does
// not expect it for as long as that takes. It returns neither where the run has
// ended.
func (o *Orch) openFirst(l *lead) (*edge.Writer, *fault.Fault) {
	for {
		w, s, err := o.openOnce(l)
		if err == nil {
			select {
			case <-l.serve:
				return w, nil
			case <-s.Done():
			case <-l.live.Done():
			}
			_ = w.Close(l.live) // it holds no record
		}
		if ended(l.live) {
			return nil, nil
		}
		select {
		case <-l.serve: // every stage is ready, and this stream is not the one it took
			f := fault.New(fault.EdgeStreamDropped, component, "edge", l.edges[0].Short(), "peer", l.first().Name, "way", "to")
			if err != nil {
				f.Cause = err
			}
			return nil, f
		default:
		}
		if !sleep(l.live, openPause) {
			return nil, nil
		}
	}
}

func (o *Orch) openOnce(l *lead) (*edge.Writer, endpoint.Sender, error) {
	ctx, cancel := context.WithTimeout(l.live, openWithin)
	defer cancel()
	s, err := o.endpoint.OpenUni(ctx, l.first().Node, edge.Protocol)
	if err != nil {
		return nil, nil, err
	}
	w, err := edge.NewWriter(ctx, o.edgeConfig(l, 0), s)
	if err != nil {
		s.Cancel(edge.CodeStopped)
		return nil, nil, err
	}
	return w, s, nil
}

// hearJoined begins to serve, where the run still does.
func (m *mailbox) hearJoined(j edgesJoined) {
	l := m.lead
	if l == nil || l.key != j.key || l.live.Err() != nil {
		_ = j.writer.Close(m.o.ctx)
		return // the arrival ends with its run
	}
	cfg := m.o.edgeConfig(l, len(l.stages))
	l.session = newSession(m.o, l, edge.NewPipe(j.writer, edge.NewReader(cfg, j.reader)), m.routed())
	m.o.session.Store(l.session)
	m.hold.failures = 0
	m.o.journal.Tell(event.RunServed{Run: l.key.Run, Took: m.o.now() - l.since})
}

// closeSession takes no request any more and ends the one that runs; the edges
// are closed when it has returned.
func (m *mailbox) closeSession() {
	s := m.lead.session
	if s == nil {
		return
	}
	m.lead.session = nil
	m.o.session.CompareAndSwap(s, nil)
	m.o.tasks.Go(s.close)
}
