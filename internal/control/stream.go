package control

import (
	"context"
	"io"
	"time"

	"muster/internal/id"
)

// Protocol is the name under which endpoints speak this protocol.
const Protocol = "muster/control/1"

// Version is told in each request and must be the same at both ends.
const Version = 1

// Stream is one call's stream in both directions. A stream of the endpoint is
// one. Its calls fail once it has been cancelled.
type Stream interface {
	io.Reader
	io.Writer
	// CloseWrite tells the peer that nothing more comes.
	CloseWrite() error
	// Cancel ends both directions at once, here and at the peer.
	Cancel(code uint32)
	// SetDeadline bounds calls of both directions, which then fail with
	// os.ErrDeadlineExceeded as their cause.
	SetDeadline(t time.Time) error
	// Done is closed when nothing more can be written: after CloseWrite, after
	// Cancel at either end, or when the connection has ended.
	Done() <-chan struct{}
}

// Open opens a stream of Protocol to a peer. Its errors are typed: they say
// whether the peer is unknown, refuses or is not reached.
type Open func(ctx context.Context, peer id.NodeID) (Stream, error)

// The codes with which streams are cancelled. They are on the wire: numbers are
// kept.
const (
	codeGone   = 1 // whoever called has gone
	codeBroken = 2 // the peer does not keep to the protocol
)

// cancelWith cancels s when ctx ends. The caller must call release, after which
// s is left alone.
func cancelWith(ctx context.Context, s Stream) (release func()) {
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		s.Cancel(codeGone)
	})
	return func() {
		if !stop() {
			<-cancelled
		}
	}
}
