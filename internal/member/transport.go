package member

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"muster/internal/fault"
	"muster/internal/id"
)

const (
	// mostPackets wait for the library; what comes beyond is lost, as on a
	// network.
	mostPackets = 256
	// packetSize is well below the smallest datagram that QUIC has been seen
	// to take, 1243 bytes.
	packetSize = 1100
	// nowhere is what every member advertises: names alone are dialled.
	nowhere     = "127.0.0.1"
	nowherePort = 1
)

var errNoName = errors.New("only node ids are dialled")

// transport joins the library to the network. It lives as long as ctx.
type transport struct {
	self    id.NodeID
	ctx     context.Context
	network Network
	packets chan *memberlist.Packet
	streams chan net.Conn
	conns   tasks         // streams that the library holds
	lost    atomic.Uint64 // packets, either way

	mu     sync.Mutex
	faults map[id.NodeID]error // why the latest dial failed
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ctx context.Context, self id.NodeID) *transport {
	return &transport{
		self: self, ctx: ctx, packets: make(chan *memberlist.Packet, mostPackets), streams: make(chan net.Conn),
		faults: map[id.NodeID]error{},
	}
}

// receive takes a packet of a peer; it never blocks.
func (t *transport) receive(peer id.NodeID, b []byte) {
	if t.ctx.Err() != nil {
		return
	}
	select {
	case t.packets <- &memberlist.Packet{Buf: b, From: peerAddr{peer}, Timestamp: time.Now()}:
	default:
		t.lost.Add(1)
	}
}

// serve gives the library a stream that a peer opened, and waits until it is
// done with it.
func (t *transport) serve(ctx context.Context, peer id.NodeID, s Stream) {
	if !t.conns.begin() {
		s.Cancel(0)
		return
	}
	c := newConn(s, t.self, peer, true, t.conns.end)
	if !t.offer(ctx, c) {
		s.Cancel(0)
		c.close()
		return
	}
	select {
	case <-c.closed:
		return
	case <-ctx.Done():
	case <-t.ctx.Done():
	}
	s.Cancel(0) // whatever the library waits for in it ends now
}

// offer reports whether the library has taken c.
func (t *transport) offer(ctx context.Context, c net.Conn) bool {
	select {
	case t.streams <- c:
		return true
	case <-ctx.Done():
	case <-t.ctx.Done():
	}
	return false
}

// WriteToAddress sends a packet. It reports no failure: to the library, one
// that it does not know means that the probe proved nothing, and a node that
// cannot be sent to would never become suspect. Lost is lost.
func (t *transport) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	now := time.Now()
	peer, err := id.ParseNodeID(addr.Name)
	if err != nil || t.ctx.Err() != nil || t.network.Send(peer, b) != nil {
		t.lost.Add(1)
	}
	return now, nil
}

// DialAddressTimeout opens a stream that lasts no longer than timeout, unless
// the library says otherwise.
func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	peer, err := id.ParseNodeID(addr.Name)
	if err != nil {
		return nil, errNoName
	}
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	s, err := t.network.Open(ctx, peer)
	t.note(peer, err)
	if err != nil {
		return nil, err
	}
	if err := s.SetDeadline(time.Now().Add(timeout)); err != nil || !t.conns.begin() {
		s.Cancel(0)
		return nil, cmp.Or(err, context.Cause(t.ctx))
	}
	stop := context.AfterFunc(t.ctx, func() { s.Cancel(0) })
	return newConn(s, t.self, peer, false, func() {
		stop()
		t.conns.end()
	}), nil
}

// note remembers how dialling a peer went; the library keeps only the text.
func (t *transport) note(peer id.NodeID, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.faults, peer)
	} else {
		t.faults[peer] = err
	}
}

// failure is why the latest dial of a peer failed, nil where it did not.
func (t *transport) failure(peer id.NodeID) *fault.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fault.From(t.faults[peer])
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(nowhere).To4(), nowherePort, nil
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo([]byte, string) (time.Time, error) { return time.Time{}, errNoName }

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(string, time.Duration) (net.Conn, error) { return nil, errNoName }

// Shutdown implements memberlist.Transport. The member has ended ctx before.
func (t *transport) Shutdown() error { return nil }
