package node

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"muster/internal/core/stage"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/shard"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// connect joins the stage to its neighbours: a pump from the in-edge to the
// worker's ring, and one from the worker's ring to the out-edge. From then on
// the worker may owe a step.
func (n *node) connect() {
	n.begin((*node).pumpIn)
	n.begin((*node).pumpOut)
	n.begin((*node).watchWorker)
}

func (n *node) pumpIn(w *work) (stage.Event, error) {
	r, err := w.arrival.Wait(w.ctx)
	if err != nil {
		return nil, err
	}
	n.tell(worked{stage.EdgeJoined{Order: w.order, Side: stage.In}})
	first := &onFirst{Sink: w.crew.feed, then: func() { n.tell(worked{stage.ServeAsked{Order: w.order}}) }}
	err = edge.In(w.ctx, w.edge(w.asked.GetIn(), true), r, first)
	return nil, w.ended(err)
}

func (n *node) pumpOut(w *work) (stage.Event, error) {
	net, err := n.here()
	if err != nil {
		return nil, err
	}
	s, err := w.open(net)
	if err != nil {
		return nil, err
	}
	n.tell(worked{stage.EdgeJoined{Order: w.order, Side: stage.Out}})
	err = edge.Out(w.ctx, w.edge(w.asked.GetOut(), false), w.crew.drain, s)
	return nil, w.ended(err)
}

// Pauses between dials of the next stage, which may not have heard of the pool
// yet.
const (
	dialPause = 100 * time.Millisecond
	dialsMost = 20
)

// open opens the out-edge. A peer that does not let this node in may not have
// heard of it yet: that is tried for a while.
func (w *work) open(net *network) (edge.Sender, error) {
	for tried := 1; ; tried++ {
		s, err := net.endpoint.OpenUni(w.ctx, controlpb.Node(w.asked.GetOut().GetPeerId()), edge.Protocol)
		if err == nil {
			return s, nil
		}
		if again := errors.Is(err, fault.EndpointPeerRefused) || errors.Is(err, fault.EndpointPeerRestarted); !again || tried == dialsMost {
			return nil, err
		}
		select {
		case <-time.After(dialPause):
		case <-w.ctx.Done():
			return nil, context.Cause(w.ctx)
		}
	}
}

// edge is one side of the stage: ids enter the first one, answers leave the
// last, rows pass between.
func (w *work) edge(s *controlpb.EdgeSpec, in bool) edge.Config {
	cfg := edge.Config{
		Run: w.order.Run, Attempt: w.order.Attempt, Edge: controlpb.Edge(s.GetEdgeId()), Peer: controlpb.Node(s.GetPeerId()),
		Kind: wire.KindRows, Limits: shard.Limits(w.asked.GetRecipe().Wire(), w.model.Width, w.model.Vocabulary), Meter: &w.outMeter,
	}
	if in {
		cfg.Meter = &w.inMeter
	}
	switch {
	case in && w.first():
		cfg.Kind = wire.KindTokens
	case !in && w.last():
		cfg.Kind = wire.KindAnswers
	}
	return cfg
}

// ended says why a pump has ended before it was told to. An edge that the other
// end has ended, since its stage is torn down, is no fault of this stage: that
// node says why, and the order to tear down follows. A ring that closed is the
// worker's end, which says more.
func (w *work) ended(err error) error {
	if err != nil && w.ctx.Err() == nil && !stopped(err) {
		return w.crew.cause(err)
	}
	return nil
}

// stopped reports whether the peer has cancelled the stream since its stage is
// torn down.
func stopped(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		var f *fault.Fault
		if errors.As(err, &f) && f.Code == fault.EndpointStreamCancelled {
			return f.Attr("stream_code") == strconv.Itoa(int(edge.CodeStopped))
		}
	}
	return false
}

// onFirst is a sink that tells of its first record.
type onFirst struct {
	edge.Sink
	once sync.Once
	then func()
}

func (s *onFirst) Commit() {
	s.Sink.Commit()
	s.once.Do(s.then)
}
