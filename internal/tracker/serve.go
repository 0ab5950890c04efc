package tracker

import (
	"context"
	"net"
	"time"

	"muster/internal/id"
	"muster/internal/tracker/api"
)

const (
	requestWithin = 10 * time.Second // a head, a body, an answer
	wantedWithin  = 5 * time.Second  // the owner's answer
	mostHead      = 16 << 10         // bytes
)

// Serve answers what peer asks on s and returns when it has, or when ctx has
// ended. Whoever gave s ends it then: what was written is sent, what was not
// read is refused.
func (t *Tracker) Serve(ctx context.Context, peer id.NodeID, s api.Stream) {
	c := api.Served(s, peer)
	defer context.AfterFunc(ctx, c.Abort)()
	// Serve ends by the listener's second Accept, which waits for the end of
	// the one connection.
	_ = t.server.Serve(&single{ctx: ctx, conn: c})
}

// single is a listener of one connection.
type single struct {
	ctx   context.Context //nolint:containedctx // a listener has no other way to BaseContext
	conn  *api.Conn
	given bool
}

// Accept gives the connection, and then waits until it is closed.
func (l *single) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.conn.Closed()
	return nil, net.ErrClosed
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

// baseContext ends requests with the stream they came by.
func baseContext(l net.Listener) context.Context { return l.(*single).ctx }

type peerKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, c.(*api.Conn).Peer())
}
