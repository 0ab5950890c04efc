package node

import (
	"context"
	"crypto/rand"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// proveControl sends a ping through the endpoint to the node itself: the
// mailbox answers it.
func (n *node) proveControl(ctx context.Context, _ *attempt) (string, error) {
	net, err := n.here()
	if err != nil {
		return "", err
	}
	nonce, err := id.NewNonce(rand.Reader)
	if err != nil {
		return "", fault.New(fault.InternalUnexpected, component).Because(err)
	}
	reply, err := net.self.Call(ctx, net.endpoint.ID(), &controlpb.Request{Body: &controlpb.Request_Ping{Ping: &controlpb.Ping{
		Nonce: uint64(nonce), BootId: controlpb.ID(n.bootID),
	}}})
	if err != nil {
		return "", err
	}
	return "the mailbox answers", n.own(reply.GetPing(), nonce)
}

// own says what is wrong with an answer to a ping of this node to itself.
func (n *node) own(p *controlpb.Pong, nonce id.Nonce) error {
	if p.GetNonce() != uint64(nonce) || controlpb.Boot(p.GetBootId()) != n.bootID {
		return fault.New(fault.NodeHandlerBroken, component, "what", "a ping with another nonce or boot")
	}
	return nil
}
