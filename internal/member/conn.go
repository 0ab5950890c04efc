package member

import (
	"net"
	"sync"

	"muster/internal/id"
)

// peerAddr is where packets and streams come from, as the library logs it.
type peerAddr struct{ peer id.NodeID }

func (peerAddr) Network() string  { return Protocol }
func (a peerAddr) String() string { return a.peer.Short() }

// conn is a stream as the library wants it.
type conn struct {
	Stream
	self, peer id.NodeID
	accepted   bool          // opened by the peer
	closed     chan struct{} // by Close
	close      func()        // once
}

// newConn wraps a stream; ended is called once, when the conn is closed.
func newConn(s Stream, self, peer id.NodeID, accepted bool, ended func()) *conn {
	c := &conn{Stream: s, self: self, peer: peer, accepted: accepted, closed: make(chan struct{})}
	c.close = sync.OnceFunc(func() {
		if !accepted {
			s.Cancel(0) // the reply is read or of no use, so what was sent has served
		}
		close(c.closed)
		ended()
	})
	return c
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.close()
	return nil
}

// Write implements net.Conn. A conn that cannot be written to closes itself:
// the library forgets to where it could not even write its label.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	if err != nil && !c.accepted {
		c.close()
	}
	return n, err
}

func (c *conn) LocalAddr() net.Addr  { return peerAddr{c.self} }
func (c *conn) RemoteAddr() net.Addr { return peerAddr{c.peer} }

var _ net.Conn = (*conn)(nil)
