package endpoint

import (
	"io"
	"time"

	"github.com/quic-go/quic-go"
)

// The first byte of a uni-stream or a datagram.
const (
	kindHello    = 1 // stream: the acceptor lets the dialler in
	kindStream   = 2 // stream: one of the protocol
	kindDatagram = 3 // both: one datagram of the protocol, to the end
	kindNudge    = 4 // datagram: nothing, see nudge
)

// kindTimeout is how long a uni-stream may be without its first byte, and a
// datagram in a stream without its end.
const kindTimeout = 5 * time.Second

// mostDatagram is the size of the largest datagram, in bytes.
const mostDatagram = 64 << 10

func (c *conn) serveUni(q *quic.ReceiveStream) {
	_ = q.SetReadDeadline(time.Now().Add(kindTimeout))
	kind, err := readKind(q)
	switch {
	case err != nil:
		q.CancelRead(streamBroken)
	case kind == kindStream && c.protocol.Uni != nil:
		_ = q.SetReadDeadline(time.Time{})
		c.protocol.Uni(c.q.Context(), c.peer, &receiver{half: half{c: c}, q: q})
		q.CancelRead(streamUnread)
	case kind == kindDatagram && c.protocol.Datagram != nil:
		if b, ok := readDatagram(q); ok {
			c.protocol.Datagram(c.peer, b)
			return
		}
		q.CancelRead(streamBroken)
	default:
		q.CancelRead(streamRefused)
	}
}

func readKind(r io.Reader) (byte, error) {
	var kind [1]byte
	_, err := io.ReadFull(r, kind[:])
	return kind[0], err
}

// readDatagram reads to the end of the stream; false where it is cut off or
// larger than any datagram.
func readDatagram(r io.Reader) ([]byte, bool) {
	b, err := io.ReadAll(io.LimitReader(r, mostDatagram+1))
	return b, err == nil && len(b) <= mostDatagram
}
