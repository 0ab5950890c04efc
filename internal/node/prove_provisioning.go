package node

import (
	"context"
	"errors"

	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// proveProvisioning asks the node's own handler for a stage, dry: that the node
// is not available yet must be its only objection.
func (n *node) proveProvisioning(ctx context.Context, _ *attempt) (string, error) {
	net, err := n.here()
	if err != nil {
		return "", err
	}
	_, err = net.self.Call(ctx, net.endpoint.ID(), &controlpb.Request{Body: &controlpb.Request_Provision{Provision: &controlpb.Provision{
		BootId: controlpb.ID(n.bootID), DryRun: true,
	}}})
	switch {
	case errors.Is(err, fault.StageNodeUnavailable):
		return "takes a stage once it is available", nil
	case err == nil:
		return "", fault.New(fault.NodeHandlerBroken, component, "what", "yes to a stage before the node was available")
	default:
		return "", err
	}
}
