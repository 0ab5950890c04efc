package edge

import (
	"context"
	"io"
	"time"
)

// Protocol is the name under which edges are opened.
const Protocol = "muster/edge/1"

// Sender is the writing end of a one-way stream. A call past the write
// deadline fails with os.ErrDeadlineExceeded in its chain; Write of nothing
// tells whether and why the stream has ended.
type Sender interface {
	io.Writer
	// CloseWrite ends the stream; what was written is delivered.
	CloseWrite() error
	// Cancel ends it at once; what was written may be lost.
	Cancel(code uint32)
	SetWriteDeadline(t time.Time) error
	// Done is closed when nothing more can be written.
	Done() <-chan struct{}
}

// Receiver is the reading end. A call past the read deadline fails with
// os.ErrDeadlineExceeded in its chain.
type Receiver interface {
	io.Reader
	Cancel(code uint32)
	SetReadDeadline(t time.Time) error
}

// Source gives the bytes of records; io.EOF ends it between records. Done says
// that one has been passed on whole.
type Source interface {
	Reader(ctx context.Context) io.Reader
	Done()
}

// Sink takes the bytes of records and blocks while it is full; Commit says that
// one is whole.
type Sink interface {
	Write(ctx context.Context, b []byte) error
	Commit()
}

// The codes with which streams of edges are cancelled. They are on the wire:
// numbers are kept.
const (
	CodeStopped uint32 = 1 // the run is torn down
	CodeFaulted uint32 = 2 // this side found a fault, and its node says which
	CodeRefused uint32 = 3 // the edge is not expected
)
