package member

import (
	"context"
	"io"
	"time"

	"muster/internal/id"
)

// Protocol is the name under which an endpoint carries SWIM. Its handlers are
// Member.Serve for streams in both directions and Member.Datagram.
const Protocol = "muster/swim/1"

// Stream is a stream in both directions with one peer.
type Stream interface {
	io.Reader
	io.Writer
	// Cancel ends the stream both ways at once.
	Cancel(code uint32)
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Network is what a Member sends by.
type Network struct {
	// Open opens a stream to the peer; ctx bounds the opening alone.
	Open func(ctx context.Context, peer id.NodeID) (Stream, error)
	// Send sends b at best once, and never blocks; b is the caller's again
	// when it returns.
	Send func(peer id.NodeID, b []byte) error
}

// Over is the network of an endpoint that was opened with Protocol.
func Over[S Stream](endpoint interface {
	OpenStream(ctx context.Context, peer id.NodeID, protocol string) (S, error)
	SendDatagram(peer id.NodeID, protocol string, b []byte) error
},
) Network {
	return Network{
		Open: func(ctx context.Context, peer id.NodeID) (Stream, error) {
			s, err := endpoint.OpenStream(ctx, peer, Protocol)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Send: func(peer id.NodeID, b []byte) error { return endpoint.SendDatagram(peer, Protocol, b) },
	}
}
