package endpoint_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
)

func TestDatagramsOfEverySizeArriveWhole(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	for _, size := range []int{0, 1, 1100, 1200, 1243, 1400, 9000, endpoint.MostDatagram} {
		sent := bytes.Repeat([]byte{byte(size)}, size)
		if err := a.SendDatagram(b.ID(), swimProtocol, sent); err != nil {
			t.Fatal(err)
		}
		for i := range sent {
			sent[i] = 0xee // it is the caller's again
		}
		g := receive(t, "a datagram", b.datagrams)
		if g.peer != a.ID() || len(g.b) != size || bytes.Count(g.b, []byte{byte(size)}) != size {
			t.Fatalf("of %d bytes came %d", size, len(g.b))
		}
	}
	// A datagram may arrive before its sender has counted it.
	eventually(t, "all are counted", func() bool { return a.connections(b.ID(), swimProtocol)[0].Datagrams.Sent >= 8 })
	counts := a.connections(b.ID(), swimProtocol)[0].Datagrams
	if counts.Sent != 8 || counts.Streamed < 3 || counts.Streamed > 5 || counts.Dropped != 0 {
		t.Errorf("the counts are %+v", counts)
	}
	wants(t, a.SendDatagram(b.ID(), swimProtocol, make([]byte, endpoint.MostDatagram+1)), fault.EndpointDatagramTooLarge, "65537", "65536")
	wants(t, a.SendDatagram(idOf(newKey(t)), swimProtocol, nil), fault.EndpointPeerUnknown)
	wants(t, a.SendDatagram(b.ID(), "never/heard/1", nil), fault.EndpointConfigInvalid)
}

func TestDatagramsOfASizeThatNeverBreaks(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	const count = 200
	for range count {
		if err := a.SendDatagram(b.ID(), swimProtocol, make([]byte, 1100)); err != nil {
			t.Fatal(err)
		}
		receive(t, "a datagram", b.datagrams)
	}
	eventually(t, "all are counted", func() bool { return a.connections(b.ID(), swimProtocol)[0].Datagrams.Sent >= count })
	if c := a.connections(b.ID(), swimProtocol)[0].Datagrams; c.Sent != count || c.Streamed != 0 {
		t.Errorf("the counts are %+v", c)
	}
}

// The library's own call blocks when 32 wait; this one never does.
func TestSendingDatagramsNeverBlocksAndCountsWhatItDrops(t *testing.T) {
	a, b := open(t, hasty), open(t, hasty)
	w := newWire(t, b, 0)
	a.Permit(1, map[id.NodeID][]string{b.ID(): {w.addr}})
	b.permits(1, a.ID())
	a.mustCall(b, swimProtocol)
	w.cut.Store(true)
	refused := 0
	const count = 20_000
	for range count {
		if err := a.SendDatagram(b.ID(), swimProtocol, make([]byte, 1100)); err != nil {
			wants(t, err, fault.EndpointDatagramDropped, b.ID().Short())
			refused++
		}
	}
	if refused < count/2 {
		t.Errorf("of %d datagrams on a cut link only %d were refused", count, refused)
	}
	eventually(t, "the refused ones are counted", func() bool {
		c := a.connections(b.ID(), swimProtocol)
		return len(c) == 0 || c[0].Datagrams.Dropped >= uint64(refused)
	})
	w.cut.Store(false)
	eventually(t, "datagrams pass again", func() bool {
		_ = a.SendDatagram(b.ID(), swimProtocol, []byte("healed"))
		select {
		case g := <-b.datagrams:
			return string(g.b) == "healed"
		default:
			return false
		}
	})
}

func TestADatagramDialsItsPeer(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	for range 10 {
		if err := a.SendDatagram(b.ID(), swimProtocol, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		receive(t, "a datagram sent before there was a connection", b.datagrams)
	}
	c := open(t, func(c *config) { c.DialTimeout = 200 * time.Millisecond })
	peer := idOf(newKey(t))
	c.Permit(1, map[id.NodeID][]string{peer: {swallow(t)}})
	if err := c.SendDatagram(peer, swimProtocol, []byte("x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a peer that is not reached leaves nothing waiting", func() bool {
		return c.Holds().Links == 1 && c.SendDatagram(peer, swimProtocol, []byte("x")) == nil
	})
	c.Permit(2, nil)
	eventually(t, "nothing is kept of a peer that is gone", func() bool { return c.Holds().Links == 0 })
}

// Datagrams and streams of one connection share its congestion control and
// windows: SWIM must not wait behind activations.
func TestDatagramsPassAStalledPipe(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the pipe", b.pipes)
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, 32<<20)) // more than any window
		written <- err
	}()
	for range 20 {
		if err := a.SendDatagram(b.ID(), swimProtocol, []byte("ping")); err != nil {
			t.Fatal(err)
		}
		receive(t, "a datagram beside a stalled pipe", b.datagrams)
		a.mustCall(b, echoProtocol)
	}
	select {
	case err := <-written:
		t.Fatalf("the pipe was not stalled: %v", err)
	default:
	}
	r.Cancel(1)
	wants(t, receive(t, "the end of the write", written), fault.EndpointStreamCancelled)
}

func TestASlowReaderOfDatagramsHoldsUpNothingElse(t *testing.T) {
	block := make(chan struct{})
	a := open(t)
	b := open(t, func(c *config) {
		for i, p := range c.Protocols {
			if p.Name == swimProtocol {
				c.Protocols[i].Datagram = func(id.NodeID, []byte) { <-block }
			}
		}
	})
	t.Cleanup(func() { close(block) })
	acquaint(a, b)
	for range 1000 {
		_ = a.SendDatagram(b.ID(), swimProtocol, make([]byte, 100))
	}
	for range 10 {
		a.mustCall(b, swimProtocol)
	}
	s, err := a.OpenStream(within(t, wait), b.ID(), swimProtocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "x"); err != nil {
		t.Fatal(err)
	}
	s.Cancel(0)
}
