package endpoint

import (
	"context"
	"net"
	"strconv"
	"strings"

	"muster/internal/fault"
	"muster/internal/id"
)

// DialSelf dials the endpoint's own id through its own socket: proof that the
// port is bound, the identity its own and packets pass. It ends with ctx or
// after Config.DialTimeout.
func (e *Endpoint) DialSelf(ctx context.Context) error {
	addr := e.Addr()
	if !addr.Addr().IsUnspecified() {
		return e.DialBack(ctx, e.self, addr.String())
	}
	port := strconv.Itoa(int(addr.Port()))
	return e.prove(ctx, e.self, net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port))
}

// DialBack makes one handshake at addr and returns nil if peer answers there
// and lets this node in, endpoint.identity_mismatched if somebody else
// answers. It needs no address of the permitted set; the connection ends
// before it returns.
func (e *Endpoint) DialBack(ctx context.Context, peer id.NodeID, addr string) error {
	return e.prove(ctx, peer, addr)
}

func (e *Endpoint) prove(ctx context.Context, peer id.NodeID, addrs ...string) error {
	c, err := e.dialAlone(ctx, peer, e.protocols[proof], addrs)
	if err != nil {
		return err
	}
	c.close(codeDone)
	return nil
}

// dialAlone dials a connection for one stream. It lasts until its stream has
// ended, at both sides as far as this one can tell.
func (e *Endpoint) dialAlone(ctx context.Context, peer id.NodeID, p *Protocol, addrs []string) (*conn, error) {
	e.mu.Lock()
	err := e.Err()
	if err == nil && !e.allows(peer, p) {
		err = e.targetAt(peer, p.Name, strings.Join(addrs, ", ")).fault(fault.EndpointPeerUnknown)
	}
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.ctx, func() { cancel(e.Err()) })
	e.tasks.begin()
	e.mu.Unlock()
	defer func() {
		stop()
		cancel(nil)
		e.tasks.end()
	}()
	return e.reach(ctx, peer, p, addrs, true)
}
