package endpoint

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// OpenStream opens a stream to a permitted peer, on the connection there is
// or on one it dials; all who want one wait for the same dial. ctx bounds the
// opening alone, see SetDeadline. A stream that nothing is written to is not
// seen by the peer. Where the peer's process has been started anew unseen, the
// first use of the stream fails with endpoint.peer_restarted, and the next
// stream reaches the new process.
//
// Faults: endpoint.peer_unknown, endpoint.peer_unreachable,
// endpoint.peer_refused, endpoint.identity_mismatched,
// endpoint.protocol_unknown, endpoint.connections_exhausted,
// endpoint.call_overdue (the peer serves as many streams as it takes),
// endpoint.call_cancelled, endpoint.socket_closed.
func (e *Endpoint) OpenStream(ctx context.Context, peer id.NodeID, protocol string) (Stream, error) {
	c, err := e.connection(ctx, peer, protocol)
	if err != nil {
		return nil, err
	}
	s, err := c.openStream(ctx)
	if err != nil && c.dead() {
		// It ended between being chosen and being used.
		if c, err = e.connection(ctx, peer, protocol); err == nil {
			s, err = c.openStream(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenUni opens a stream that only this side writes to. The peer sees it at
// once. Else it is as OpenStream.
func (e *Endpoint) OpenUni(ctx context.Context, peer id.NodeID, protocol string) (Sender, error) {
	c, err := e.connection(ctx, peer, protocol)
	if err != nil {
		return nil, err
	}
	s, err := c.openUni(ctx)
	if err != nil && c.dead() {
		if c, err = e.connection(ctx, peer, protocol); err == nil {
			s, err = c.openUni(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenStreamAt opens a stream to a peer at one address, on a connection of its
// own that ends soon after the stream. It serves to speak with one of several
// processes that have one id, and, for open protocols, with a peer that is not
// permitted.
func (e *Endpoint) OpenStreamAt(ctx context.Context, peer id.NodeID, protocol, addr string) (Stream, error) {
	p := e.protocols[protocol]
	if p == nil || protocol == proof {
		return nil, unspoken(protocol)
	}
	c, err := e.dialAlone(ctx, peer, p, []string{addr})
	if err != nil {
		return nil, err
	}
	s, err := c.openStream(ctx)
	c.busy.Add(-1)
	if err != nil {
		c.close(codeDone)
		return nil, err
	}
	return s, nil
}

func (c *conn) openStream(ctx context.Context) (*stream, error) {
	c.busy.Add(1)
	q, err := c.q.OpenStreamSync(ctx)
	if err != nil {
		c.busy.Add(-1)
		return nil, c.openFault(ctx, err)
	}
	return &stream{half: half{c: c, opened: true}, q: q}, nil
}

func (c *conn) openUni(ctx context.Context) (*sender, error) {
	c.busy.Add(1)
	q, err := c.q.OpenUniStreamSync(ctx)
	if err != nil {
		c.busy.Add(-1)
		return nil, c.openFault(ctx, err)
	}
	s := &sender{half: half{c: c, opened: true}, q: q}
	s.end(readSide)
	if _, err := s.Write([]byte{kindStream}); err != nil {
		return nil, err
	}
	return s, nil
}

// openFault says why no stream could be opened on a connection.
func (c *conn) openFault(ctx context.Context, err error) error {
	switch {
	case c.lost(err):
		return c.target().connFault(err, c.e.cfg.IdleTimeout)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return c.target().fault(fault.EndpointCallOverdue).Because(ctx.Err())
	case ctx.Err() != nil:
		return c.target().contextFault(ctx, time.Since(c.since))
	default:
		return c.streamFault(err)
	}
}
