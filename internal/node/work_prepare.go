package node

import (
	"muster/internal/core/stage"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// prepare expects the in-edge of a stage, whose producer may be ready earlier than
// it, and sees to a worker.
func (n *node) prepare() {
	w := n.work
	if !w.order.Offer() {
		if err := n.expectIn(w); err != nil {
			n.stepStage(stage.StageFailed{Order: w.order, Fault: fault.From(err)})
			return
		}
	}
	if n.attempt.crew != nil {
		n.man()
		return
	}
	n.makeCrew()
}

// expectIn has the in-edge taken in when it comes.
func (n *node) expectIn(w *work) error {
	net, err := n.here()
	if err != nil {
		return err
	}
	in, out := w.asked.GetIn(), w.asked.GetOut()
	net.learn(controlpb.Node(in.GetPeerId()), in.GetAddresses())
	net.learn(controlpb.Node(out.GetPeerId()), out.GetAddresses())
	w.arrival, err = net.edges.Expect(w.ctx, edge.Expected{
		Edge: controlpb.Edge(in.GetEdgeId()), Peer: controlpb.Node(in.GetPeerId()), Run: w.order.Run, Attempt: w.order.Attempt,
	})
	return err
}

// man gives the crew to the stage.
func (n *node) man() {
	n.work.crew = n.attempt.crew
	n.stepStage(stage.Prepared{Order: n.work.order})
}
