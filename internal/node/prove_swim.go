package node

import (
	"context"
)

// proveSwim joins the membership of the pool with the orchestrator as its seed.
func (n *node) proveSwim(ctx context.Context, _ *attempt) (string, error) {
	net, err := n.here()
	if err != nil {
		return "", err
	}
	if err := net.join(ctx); err != nil {
		return "", err
	}
	return "joined by way of " + n.cfg.Orchestrator.Short(), nil
}
