package api

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"muster/internal/id"
)

// Stream is one request's stream in both directions. A stream of the endpoint
// is one.
type Stream interface {
	io.Reader
	io.Writer
	CloseWrite() error
	Cancel(code uint32)
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// codeGone is the code with which streams are cancelled. It is on the wire.
const codeGone = 1

// Conn is a stream as net/http takes it.
type Conn struct {
	Stream
	peer   id.NodeID
	hard   bool
	once   sync.Once
	closed chan struct{}
}

// Served is a stream on which peer asks: what was answered is delivered after
// its Close.
func Served(s Stream, peer id.NodeID) *Conn {
	return &Conn{Stream: s, peer: peer, closed: make(chan struct{})}
}

// Asked is a stream on which peer is asked: its Close ends both directions.
func Asked(s Stream, peer id.NodeID) *Conn {
	return &Conn{Stream: s, peer: peer, hard: true, closed: make(chan struct{})}
}

// Peer is the node at the other end.
func (c *Conn) Peer() id.NodeID { return c.peer }

// Closed is closed by Close.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	return n, plain(err)
}

func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Stream.Write(b)
	return n, plain(err)
}

// plain gives a passed deadline as net/http knows it: a net.Error.
func plain(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}

// Abort ends both directions at once.
func (c *Conn) Abort() { c.Cancel(codeGone) }

// Close implements net.Conn.
func (c *Conn) Close() (err error) {
	c.once.Do(func() {
		if c.hard {
			c.Abort()
		} else {
			err = c.CloseWrite()
		}
		close(c.closed)
	})
	return err
}

// LocalAddr implements net.Conn; net/http only prints it.
func (c *Conn) LocalAddr() net.Addr { return addr("muster") }

// RemoteAddr is the peer's id.
func (c *Conn) RemoteAddr() net.Addr { return addr(c.peer.String()) }

type addr string

func (addr) Network() string  { return Protocol }
func (a addr) String() string { return string(a) }
