package endpoint

import (
	"errors"

	"muster/internal/id"
)

// Held is what an endpoint has in its tables.
type Held struct{ Links, Inbound, Strangers, Handshaking int }

// Holds counts the tables of an endpoint, which must not grow.
func (e *Endpoint) Holds() Held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Held{len(e.links), e.inbound, e.strangers, e.handshaking}
}

// BreakSocket makes the socket fail, as a lost network interface can.
func (e *Endpoint) BreakSocket() error { return errors.Join(e.transport.Close(), e.socket.Close()) }

// GSO reports whether the connections with a peer send batches of packets in
// one call of the system; false where there is none.
func (e *Endpoint) GSO(peer id.NodeID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.all() {
		if c.peer == peer && c.q.ConnectionState().GSO {
			return true
		}
	}
	return false
}

// SplitAddress is splitAddress.
func SplitAddress(text string, leastPort int) (host string, port int, flaw string) {
	return splitAddress(text, leastPort)
}

// The kinds of uni-streams.
const (
	KindHello    = kindHello
	KindStream   = kindStream
	KindDatagram = kindDatagram
)

// MostDatagram is the size of the largest datagram.
const MostDatagram = mostDatagram
