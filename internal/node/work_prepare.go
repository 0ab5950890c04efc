package node

import (
	"muster/internal/core/stage"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// prepare expects the in-edge, whose producer may be ready earlier than this
// stage, and sees to a worker.
func (n *node) prepare() {
	w := n.work
	net, err := n.here()
	if err == nil {
		in, out := w.asked.GetIn(), w.asked.GetOut()
		net.learn(controlpb.Node(in.GetPeerId()), in.GetAddresses())
		net.learn(controlpb.Node(out.GetPeerId()), out.GetAddresses())
		w.arrival, err = net.edges.Expect(w.ctx, edge.Expected{
			Edge: controlpb.Edge(in.GetEdgeId()), Peer: controlpb.Node(in.GetPeerId()), Run: w.order.Run, Attempt: w.order.Attempt,
		})
	}
	if err != nil {
		n.stepStage(stage.StageFailed{Order: w.order, Fault: fault.From(err)})
		return
	}
	if n.attempt.crew != nil {
		n.man()
		return
	}
	n.makeCrew()
}

// man gives the crew to the stage.
func (n *node) man() {
	n.work.crew = n.attempt.crew
	n.stepStage(stage.Prepared{Order: n.work.order})
}
