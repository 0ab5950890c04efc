package node

import (
	"context"
	"crypto/ed25519"

	"muster/internal/core/boot"
	"muster/internal/fault"
	"muster/internal/identity"
)

// proveEndpoint opens the endpoint, or takes the one that outlived the former
// attempt, and dials its own id through its own socket. Its key comes from a
// file: a fault of that is one of identity.
func (n *node) proveEndpoint(ctx context.Context, _ *attempt) (string, error) {
	net := n.network.Load()
	if net == nil {
		key, err := n.key()
		if err != nil {
			return "", &elsewhere{boot.Identity, err}
		}
		if net, err = openNetwork(n, key); err != nil {
			return "", err
		}
		n.network.Store(net)
	}
	if err := net.endpoint.DialSelf(ctx); err != nil {
		return "", err
	}
	return "udp " + net.endpoint.Addr().String() + ", id " + net.endpoint.ID().Short(), nil
}

// key is the one that was given, or that of the file.
func (n *node) key() (ed25519.PrivateKey, error) {
	if n.cfg.Key != nil {
		return n.cfg.Key, nil
	}
	return identity.LoadOrMake(n.cfg.KeyPath)
}

// here is the network; a proof that needs it starts after the endpoint's.
func (n *node) here() (*network, error) {
	if net := n.network.Load(); net != nil {
		return net, nil
	}
	return nil, fault.New(fault.EndpointSocketClosed, component)
}
