package endpoint

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/fault"
	"muster/internal/id"
)

// mostWaiting is how many datagrams wait for one peer and protocol.
const mostWaiting = 64

// Datagrams counts those of one peer and protocol, since the endpoint was
// opened.
type Datagrams struct {
	Sent     uint64 // handed to the connection, as datagrams or streams
	Streamed uint64 // of those, too large for a datagram and sent as a stream
	Dropped  uint64 // never sent: too many waited, or the peer was not reached
}

// outbox holds datagrams until a goroutine has sent them: the library's own
// queue blocks whoever finds it full. It is under the endpoint's lock.
type outbox struct {
	waiting [][]byte // each with its kind before it
	sending bool     // a goroutine has work
	counts  Datagrams
}

// SendDatagram sends b, at best once and perhaps never; b is the caller's
// again when it returns. It never blocks: a peer that is not connected is
// dialled meanwhile. What is too large for a datagram goes as a uni-stream of
// its own. Faults: endpoint.datagram_dropped, endpoint.datagram_too_large,
// endpoint.peer_unknown, endpoint.socket_closed.
func (e *Endpoint) SendDatagram(peer id.NodeID, protocol string, b []byte) error {
	if len(b) > mostDatagram {
		return fault.New(fault.EndpointDatagramTooLarge, component, "size", len(b), "most", mostDatagram)
	}
	key := linkKey{peer, protocol}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.usable(peer, protocol); err != nil {
		return err
	}
	box := &e.link(key).outbox
	if len(box.waiting) >= mostWaiting {
		box.counts.Dropped++
		return e.target(peer, protocol).fault(fault.EndpointDatagramDropped, "count", len(box.waiting))
	}
	box.waiting = append(box.waiting, append([]byte{kindDatagram}, b...))
	if !box.sending {
		box.sending = true
		e.tasks.Go(func() { e.empty(key) })
	}
	return nil
}

// empty sends what waits, and ends when nothing does.
func (e *Endpoint) empty(key linkKey) {
	for {
		c, err := e.connection(e.ctx, key.peer, key.protocol)
		e.mu.Lock()
		box := &e.link(key).outbox
		if err != nil {
			box.counts.Dropped += uint64(len(box.waiting))
			box.waiting = nil
		}
		if len(box.waiting) == 0 {
			box.waiting, box.sending = nil, false
			e.mu.Unlock()
			return
		}
		b := box.waiting[0]
		box.waiting = box.waiting[1:]
		e.mu.Unlock()

		streamed, err := c.send(b)

		e.mu.Lock()
		box = &e.link(key).outbox
		switch {
		case err != nil:
			box.counts.Dropped++
		case streamed:
			box.counts.Streamed++
			fallthrough
		default:
			box.counts.Sent++
		}
		e.mu.Unlock()
	}
}

// send hands one datagram, its kind before it, to the connection; it may wait for the link, never
// longer than the connection lasts.
func (c *conn) send(b []byte) (streamed bool, err error) {
	err = c.q.SendDatagram(b)
	var large *quic.DatagramTooLargeError
	if !errors.As(err, &large) {
		return false, err
	}
	s, err := c.q.OpenUniStream()
	if err != nil {
		return true, err
	}
	_ = s.SetWriteDeadline(time.Now().Add(kindTimeout))
	if _, err := s.Write(b); err != nil {
		s.CancelWrite(streamBroken)
		return true, err
	}
	return true, s.Close()
}

func (c *conn) receiveDatagrams() {
	for {
		b, err := c.q.ReceiveDatagram(c.q.Context())
		if err != nil {
			return
		}
		if len(b) > 0 && b[0] == kindDatagram {
			c.protocol.Datagram(c.peer, b[1:])
		}
	}
}
