package endpoint

import (
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/id"
)

type linkKey struct {
	peer     id.NodeID
	protocol string
}

// link is all that there is with one peer for one protocol. Its fields are
// under the endpoint's lock.
type link struct {
	protocol *Protocol
	conns    []*conn
	dial     *dial // in progress; nil where there is none
	outbox   outbox
}

// mostOfOnePeer is how many connections of one protocol a peer may have
// dialled. The rest are those of its former processes.
const mostOfOnePeer = 8

// link returns the link of key. The caller holds mu and has looked up the
// protocol.
func (e *Endpoint) link(key linkKey) *link {
	l := e.links[key]
	if l == nil {
		l = &link{protocol: e.protocols[key.protocol]}
		e.links[key] = l
	}
	return l
}

// all are all connections. The caller holds mu.
func (e *Endpoint) all() []*conn {
	var conns []*conn
	for _, l := range e.links {
		conns = append(conns, l.conns...)
	}
	return conns
}

// forget takes c out. The caller holds mu.
func (e *Endpoint) forget(c *conn) {
	l := e.links[linkKey{c.peer, c.protocol.Name}]
	for i, other := range l.conns {
		if other == c {
			l.conns = append(l.conns[:i:i], l.conns[i+1:]...)
			break
		}
	}
	if !c.dialled {
		e.inbound--
	}
	if c.stranger {
		e.strangers--
	}
	e.prune(linkKey{c.peer, c.protocol.Name}, l)
}

// prune forgets a link that holds nothing. The caller holds mu.
func (e *Endpoint) prune(key linkKey, l *link) {
	if len(l.conns) == 0 && l.dial == nil && !l.outbox.sending && l.outbox.counts == (Datagrams{}) {
		delete(e.links, key)
	}
}

// dialler is who began the connection.
func (c *conn) dialler() id.NodeID {
	if c.dialled {
		return c.e.self
	}
	return c.peer
}

// process is the latest process of a peer: that of the latest connection, by
// whatever protocol. false where there is no connection. The caller holds mu.
func (e *Endpoint) process(peer id.NodeID) (instance, bool) {
	var latest *conn
	for name := range e.protocols {
		l := e.links[linkKey{peer, name}]
		if l == nil {
			continue
		}
		for _, c := range l.conns {
			if !c.alone && !c.dead() && (latest == nil || c.number > latest.number) {
				latest = c
			}
		}
	}
	if latest == nil {
		return instance{}, false
	}
	return latest.instance, true
}

// best is the connection that new streams go to, nil where there is none: of
// the peer's latest process the one dialled by the smaller id, of those the
// latest. The caller holds mu.
func (e *Endpoint) best(key linkKey) *conn {
	l := e.links[key]
	process, ok := e.process(key.peer)
	if l == nil || !ok {
		return nil
	}
	var best *conn
	for _, c := range l.conns {
		if !c.alone && !c.stale && !c.leaving && !c.dead() && c.instance == process && (best == nil || c.better(best)) {
			best = c
		}
	}
	return best
}

// better compares two connections with one process.
func (c *conn) better(other *conn) bool {
	if order := c.dialler().Compare(other.dialler()); order != 0 {
		return order < 0
	}
	return c.number > other.number
}

// surplus is the oldest accepted connection that must go when another is
// accepted, nil where there is room. One that goes already counts no more.
func (l *link) surplus(dialled bool) *conn {
	if dialled {
		return nil
	}
	var oldest *conn
	accepted := 0
	for _, c := range l.conns {
		if c.dialled || c.leaving || c.dead() {
			continue
		}
		accepted++
		if oldest == nil || c.number < oldest.number {
			oldest = c
		}
	}
	if accepted < mostOfOnePeer {
		return nil
	}
	oldest.leaving = true
	return oldest
}

// parting reports whether this side should close c, and with which code: it
// dialled it for one stream, which has ended, or to an address that the peer
// has no more, or the dials crossed and b, the one in use, stays. A stream on
// its way could otherwise be cut, hence the linger.
func (c *conn) parting(b *conn, now time.Time, linger time.Duration) (quic.ApplicationErrorCode, bool) {
	if !c.dialled || c.idle < 2 {
		return 0, false
	}
	if c.alone || c.stale {
		return codeDone, true
	}
	crossed := b != nil && b != c && b.instance == c.instance && b.dialler() != c.dialler()
	return codeCrossed, crossed && now.Sub(b.since) >= linger
}
