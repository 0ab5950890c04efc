package node

import (
	"context"

	"muster/internal/core/stage"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// ask is a Provision on its way through the stage core.
type ask struct {
	asked  *controlpb.Provision
	order  stage.Order
	answer chan *fault.Fault // room for one; nil is yes
}

// ending is a TearDown.
type ending struct {
	order  stage.Order
	reason *fault.Fault
}

// handle serves one control request. The endpoint lets in peers of the pool;
// who may order what is looked at here.
func (n *node) handle(ctx context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
	if err := n.allowed(peer, req); err != nil {
		return nil, err
	}
	switch body := req.GetBody().(type) {
	case *controlpb.Request_Ping:
		return n.handlePing(ctx, body.Ping)
	case *controlpb.Request_Peers:
		return n.handlePeers(body.Peers)
	case *controlpb.Request_Provision:
		return n.handleProvision(ctx, body.Provision)
	case *controlpb.Request_TearDown:
		return n.handleTearDown(body.TearDown)
	case *controlpb.Request_Leave:
		n.tell(leaving{"the orchestrator said: " + body.Leave.GetReason()})
		return &controlpb.Reply{Body: &controlpb.Reply_Leave{Leave: &controlpb.LeaveReply{}}}, nil
	default:
		return nil, nil
	}
}

// allowed lets everybody ping, the orchestrator order, and the node itself ask
// without consequences.
func (n *node) allowed(peer id.NodeID, req *controlpb.Request) error {
	net := n.network.Load()
	switch {
	case req.GetPing() != nil || peer == n.cfg.Orchestrator:
		return nil
	case req.GetProvision().GetDryRun() && net != nil && peer == net.endpoint.ID():
		return nil
	}
	return fault.New(fault.NodeCallerRefused, component, "op", req.Op(), "peer", peer.Short())
}

func (n *node) handlePing(ctx context.Context, p *controlpb.Ping) (*controlpb.Reply, error) {
	s, err := n.look(ctx)
	if err != nil {
		return nil, err
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: s.pong(p.GetNonce())}}, nil
}

// look asks the mailbox how the node is.
func (n *node) look(ctx context.Context) (Status, error) {
	to := make(chan Status, 1)
	n.tell(look{to})
	select {
	case s := <-to:
		return s, nil
	case <-ctx.Done():
		return Status{}, context.Cause(ctx)
	case <-n.ended:
		return Status{}, fault.New(fault.RunInterrupted, component)
	}
}

func (n *node) handlePeers(p *controlpb.Peers) (*controlpb.Reply, error) {
	net, err := n.here()
	if err != nil {
		return nil, err
	}
	net.permit(p.GetEpoch(), p.GetPeers())
	return &controlpb.Reply{Body: &controlpb.Reply_Peers{Peers: &controlpb.PeersReply{
		BootId: controlpb.ID(n.bootID), Epoch: net.heldEpoch(),
	}}}, nil
}

func (n *node) handleProvision(ctx context.Context, p *controlpb.Provision) (*controlpb.Reply, error) {
	a := &ask{asked: p, answer: make(chan *fault.Fault, 1), order: stage.Order{
		Run: controlpb.Run(p.GetRunId()), Attempt: p.GetAttempt(), Boot: controlpb.Boot(p.GetBootId()),
	}}
	if p.GetDryRun() && a.order.Run.IsZero() {
		a.order.Run, a.order.Attempt = id.RunID{1}, 1 // of no run; nothing is begun
	}
	n.tell(a)
	select {
	case refused := <-a.answer:
		if refused != nil {
			return nil, refused
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-n.ended:
		return nil, fault.New(fault.StageNodeUnavailable, component)
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Provision{Provision: &controlpb.ProvisionReply{BootId: controlpb.ID(n.bootID)}}}, nil
}

func (n *node) handleTearDown(p *controlpb.TearDown) (*controlpb.Reply, error) {
	n.tell(&ending{reason: p.GetReason().Typed(), order: stage.Order{
		Run: controlpb.Run(p.GetRunId()), Attempt: p.GetAttempt(), Boot: controlpb.Boot(p.GetBootId()),
	}})
	return &controlpb.Reply{Body: &controlpb.Reply_TearDown{TearDown: &controlpb.TearDownReply{BootId: controlpb.ID(n.bootID)}}}, nil
}
