package endpoint

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"time"

	"muster/internal/id"
)

// Protocol is one thing that peers speak, over connections of its own.
type Protocol struct {
	Name string // the ALPN name, such as "muster/control/1"
	Open bool   // strangers may connect

	// Bidi serves one stream that the peer opened, in a goroutine of its own.
	// The stream ends when it returns: what was written is sent, what was not
	// read is refused. ctx ends with the connection. nil refuses such streams.
	Bidi func(ctx context.Context, peer id.NodeID, s Stream)
	// Uni serves one stream that the peer opened to be read, as Bidi does.
	Uni func(ctx context.Context, peer id.NodeID, r Receiver)
	// Datagram takes one datagram and must not block; b is the callee's. One
	// call at a time for each connection, and for each oversize datagram.
	Datagram func(peer id.NodeID, b []byte)

	Limits Limits
}

// Limits bound what a peer can make this side hold. Zero fields take the
// default.
type Limits struct {
	// Streams of each kind that are served at once on a connection; a peer
	// that opens more waits. Default 64.
	Streams int
	// Window is how many bytes a peer may send ahead of the reader on one
	// stream; a connection has half as much again. It is the bound of
	// backpressure. Default 6 MiB. Connections that a peer dialled have the
	// largest of all protocols, since QUIC fixes windows before the protocol
	// is known.
	Window int
}

const (
	defaultStreams = 64
	defaultWindow  = 6 << 20
	leastWindow    = 64 << 10
	mostStreams    = 1 << 16
)

func (l Limits) filled() Limits {
	if l.Streams == 0 {
		l.Streams = defaultStreams
	}
	if l.Window == 0 {
		l.Window = defaultWindow
	}
	return l
}

// Stream is a stream in both directions. The peer sees it with its first byte
// or with CloseWrite, never before.
type Stream interface {
	Sender
	Receiver
	SetDeadline(t time.Time) error
}

// Sender is a stream's writing side. Errors are faults of this package.
type Sender interface {
	io.Writer
	// CloseWrite tells the reader that nothing more comes. What was written
	// is delivered as long as the connection lives.
	CloseWrite() error
	// Cancel ends the stream both ways at once; the peer's calls fail with
	// endpoint.stream_cancelled, whose stream_code is this one.
	Cancel(code uint32)
	SetWriteDeadline(t time.Time) error
	// Done is closed when nothing more can be written: after CloseWrite,
	// Cancel by either side or the end of the connection.
	Done() <-chan struct{}
	Peer() id.NodeID
	RemoteAddr() netip.AddrPort
}

// Receiver is a stream's reading side. Errors are io.EOF and faults of this
// package.
type Receiver interface {
	io.Reader
	Cancel(code uint32)
	SetReadDeadline(t time.Time) error
	Peer() id.NodeID
	RemoteAddr() netip.AddrPort
}

// proof is the protocol of dials that only prove an identity.
const proof = "muster/proof/1"

// aloneMark ends the ALPN name of a connection that serves one stream of its
// dialler: the acceptor opens none on it.
const aloneMark = ";alone"

func alpnOf(protocol string, alone bool) string {
	if alone {
		return protocol + aloneMark
	}
	return protocol
}

func protocolOf(alpn string) (name string, alone bool) { return strings.CutSuffix(alpn, aloneMark) }
