package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// conn is one connection with a peer whose identity is proven.
type conn struct {
	e        *Endpoint
	q        *quic.Conn
	protocol *Protocol
	peer     id.NodeID
	instance instance // the peer's process
	dialled  bool     // from here
	alone    bool     // for one stream of the dialler
	at       string   // the address dialled, as it was given; "" where it was accepted
	number   uint64   // rises from one connection of the endpoint to the next
	since    time.Time

	busy    atomic.Int64  // streams open or being served
	bidi    chan struct{} // a place for each stream served at once
	uni     chan struct{}
	nudging atomic.Bool // a nudge waits to be sent
	broken  atomic.Bool // a call has failed by the end of the connection

	// Under the endpoint's lock.
	stranger bool
	leaving  bool      // in favour of a later one
	stale    bool      // dialled at an address that the peer no longer has
	packets  uint64    // received, at the last sweep
	contact  time.Time // when a packet was last known to have come
	nudged   time.Time // last
	idle     int       // sweeps in a row that found no stream
}

// admitted is a connection that TLS has let through, with what it says of it.
type admitted struct {
	q        *quic.Conn
	protocol *Protocol
	peer     id.NodeID
	instance instance
	dialled  bool
	alone    bool
	at       string
}

// adopt puts a connection among the others and serves it. A code other than
// codeDone says why it may not; the caller then closes it.
func (e *Endpoint) adopt(a admitted) (*conn, quic.ApplicationErrorCode) {
	now := time.Now()
	c := &conn{
		e: e, q: a.q, protocol: a.protocol, peer: a.peer, instance: a.instance, dialled: a.dialled, alone: a.alone, at: a.at,
		since: now, contact: now,
		bidi: make(chan struct{}, a.protocol.Limits.Streams),
		uni:  make(chan struct{}, a.protocol.Limits.Streams),
	}
	if a.dialled && a.alone {
		c.busy.Store(1) // until its one stream is open
	}
	e.mu.Lock()
	if code := e.mayJoin(a); code != codeDone {
		e.mu.Unlock()
		return nil, code
	}
	e.number++
	c.number = e.number
	l := e.link(linkKey{c.peer, c.protocol.Name})
	surplus := l.surplus(c.dialled)
	l.conns = append(l.conns, c)
	if !c.dialled {
		e.inbound++
	}
	e.reckon(c)
	if l.dial != nil && !c.alone {
		l.dial.finish(c, nil)
	}
	c.serve()
	if surplus != nil {
		e.tasks.Go(func() { surplus.close(codeCrowded) })
	}
	e.mu.Unlock()
	return c, codeDone
}

// mayJoin says whether there is a place for a connection. The caller holds mu.
func (e *Endpoint) mayJoin(a admitted) quic.ApplicationErrorCode {
	_, permitted := e.permitted[a.peer]
	switch {
	case e.ctx.Err() != nil:
		return codeClosing
	case !e.allows(a.peer, a.protocol):
		return codeNotPermitted
	case !a.dialled && !permitted && a.peer != e.self && e.strangers >= e.cfg.Strangers:
		return codeCrowded
	}
	return codeDone
}

// serve starts the connection's goroutines; they end with it.
func (c *conn) serve() {
	c.e.tasks.Go(c.watch)
	c.e.tasks.Go(c.acceptStreams)
	c.e.tasks.Go(c.acceptUni)
	if c.protocol.Datagram != nil {
		c.e.tasks.Go(c.receiveDatagrams)
	}
}

// watch tells of the connection, and takes it out of its link when it has
// ended.
func (c *conn) watch() {
	c.e.cfg.Tell(event.PeerConnected{Peer: c.peer, Protocol: c.protocol.Name, Address: c.address().String(), Dialled: c.dialled})
	<-c.q.Context().Done()
	e := c.e
	e.mu.Lock()
	e.forget(c)
	e.mu.Unlock()
	e.cfg.Tell(event.PeerDisconnected{Peer: c.peer, Protocol: c.protocol.Name, Address: c.address().String(), Fault: c.end()})
}

// end is why the connection has ended.
func (c *conn) end() *fault.Fault {
	return c.target().connFault(context.Cause(c.q.Context()), c.e.cfg.IdleTimeout)
}

// dead reports whether nothing more can be done with the connection.
func (c *conn) dead() bool { return c.broken.Load() || c.q.Context().Err() != nil }

// lost notes whether err, from a call on the connection or a stream of it, is
// the end of the connection: streams hear of it a little before its context
// does.
func (c *conn) lost(err error) bool {
	ended := errors.Is(err, net.ErrClosed)
	if ended {
		c.broken.Store(true)
	}
	return ended
}

func (c *conn) close(code quic.ApplicationErrorCode) { _ = c.q.CloseWithError(code, closeWords[code]) }

func (c *conn) address() netip.AddrPort { return addrPort(c.q.RemoteAddr()) }

func (c *conn) target() target {
	return target{self: c.e.self, peer: c.peer, protocol: c.protocol.Name, address: c.address().String()}
}

func (c *conn) streamFault(err error) error { return c.target().streamFault(err, c.e.cfg.IdleTimeout) }

func (c *conn) acceptStreams() {
	for c.take(c.bidi) {
		s, err := c.q.AcceptStream(c.q.Context())
		if err != nil {
			return
		}
		c.start(c.bidi, func() { c.serveStream(s) })
	}
}

func (c *conn) acceptUni() {
	for c.take(c.uni) {
		s, err := c.q.AcceptUniStream(c.q.Context())
		if err != nil {
			return
		}
		c.start(c.uni, func() { c.serveUni(s) })
	}
}

// take waits for a place to serve a stream; until then the peer's streams
// wait, and the credit to open more.
func (c *conn) take(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-c.q.Context().Done():
		return false
	}
}

// start serves a stream and then gives its place back.
func (c *conn) start(places chan struct{}, serve func()) {
	c.busy.Add(1)
	c.e.tasks.Go(func() {
		defer func() {
			c.busy.Add(-1)
			<-places
		}()
		serve()
	})
}

func (c *conn) serveStream(q *quic.Stream) {
	if c.protocol.Bidi == nil {
		q.CancelRead(streamRefused)
		q.CancelWrite(streamRefused)
		return
	}
	c.protocol.Bidi(c.q.Context(), c.peer, &stream{half: half{c: c}, q: q})
	q.CancelRead(streamUnread)
	_ = q.Close()
}
