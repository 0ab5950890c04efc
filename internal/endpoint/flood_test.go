package endpoint_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
)

// halfOpen begins handshakes with n that get no further, and returns when all
// have been given up by their side.
func halfOpen(t *testing.T, n *node, count int) {
	t.Helper()
	w := newWire(t, n, 0)
	w.deaf.Store(true)
	to, err := net.ResolveUDPAddr("udp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range count {
		r := newRaw(t)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if _, err := r.transport.Dial(ctx, to, rawTLS(joinProtocol), nil); err == nil {
				t.Error("a deaf client was connected")
			}
		})
	}
	wg.Wait()
}

func TestHalfOpenHandshakesAreFewAndEnd(t *testing.T) {
	b := open(t, func(c *config) { c.Handshakes, c.DialTimeout = 8, 500*time.Millisecond })
	halfOpen(t, b, 40)
	if h := b.Holds().Handshaking; h > 8 {
		t.Errorf("%d handshakes are in progress", h)
	}
	a := open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	eventually(t, "they end", func() bool { return b.Holds().Handshaking == 0 })
}

func TestAFullHouseRefusesStrangersAndAdmitsKnownAddresses(t *testing.T) {
	b := open(t, func(c *config) { c.Handshakes, c.DialTimeout = 1, 4*time.Second })
	a, stranger := open(t), open(t)
	acquaint(a, b)
	eventually(t, "a handshake hangs", func() bool {
		halfOpen(t, b, 1) // on a busy machine it can end before it has begun
		return b.Holds().Handshaking == 1
	})
	_, err := stranger.OpenStreamAt(within(t, wait), b.ID(), joinProtocol, b.addr())
	wants(t, err, fault.EndpointConnectionsExhausted, b.ID().Short(), b.addr())
	a.mustCall(b, echoProtocol)
	eventually(t, "there is room again", func() bool { return b.Holds().Handshaking == 0 })
	if _, err := stranger.OpenStreamAt(within(t, wait), b.ID(), joinProtocol, b.addr()); err != nil {
		t.Error(err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	b := open(t, func(c *config) { c.Connections = 3 })
	a := open(t)
	peers := map[id.NodeID][]string{a.ID(): {a.addr()}}
	a.Permit(1, map[id.NodeID][]string{b.ID(): {b.addr()}})
	refused := 0
	for range 5 {
		key := newKey(t)
		peers[idOf(key)] = nil
		b.Permit(1, peers)
		if _, err := newRaw(t).admittedTo(b, rawTLS(echoProtocol, certificate(t, key, 0))); err != nil {
			refused++
		}
	}
	if refused != 2 || b.Holds().Inbound != 3 {
		t.Errorf("%d of 5 were refused, %d are connected", refused, b.Holds().Inbound)
	}
	a.mustCall(b, echoProtocol)
}

// A peer that is started again and again leaves connections that nobody has
// noticed to be dead.
func TestOnePeerHoldsFewConnectionsAndTheLatestLives(t *testing.T) {
	b := open(t)
	key := newKey(t)
	b.permits(1, idOf(key))
	var last *quic.Conn
	for range 30 {
		q, err := newRaw(t).admittedTo(b, rawTLS(echoProtocol, certificate(t, key, 0)))
		if err != nil {
			t.Fatal(err)
		}
		last = q
	}
	eventually(t, "the oldest have gone", func() bool { return b.Holds().Inbound <= 8 })
	if last.Context().Err() != nil {
		t.Error("the latest has gone")
	}
	eventually(t, "the latest is used", func() bool {
		c := b.connections(idOf(key), echoProtocol)
		return len(c) > 0 && c[len(c)-1].Used
	})
}

func TestAFloodOfStreamsWaits(t *testing.T) {
	limit := func(c *config) {
		for i := range c.Protocols {
			c.Protocols[i].Limits.Streams = 4
		}
	}
	a, b := open(t, limit), open(t, limit)
	acquaint(a, b)
	var open []endpoint.Sender
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		s, err := a.OpenUni(ctx, b.ID(), pipeProtocol)
		cancel()
		if err != nil {
			wants(t, err, fault.EndpointCallOverdue, b.ID().Short(), pipeProtocol)
			break
		}
		if open = append(open, s); len(open) > 10 {
			t.Fatalf("%d streams are open", len(open))
		}
	}
	if len(open) < 4 || len(b.pipes) != 4 {
		t.Errorf("%d streams are open, %d served", len(open), len(b.pipes))
	}
	// A crowded protocol does not touch another.
	a.mustCall(b, echoProtocol)
	b.letGo()
	for range 20 {
		s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, "the stream", b.pipes)
		s.Cancel(0)
	}
}

func TestStreamsOfNoKindAreRefusedAndHarmNothing(t *testing.T) {
	b := open(t)
	key := newKey(t)
	b.permits(1, idOf(key))
	q, err := newRaw(t).admittedTo(b, rawTLS(pipeProtocol, certificate(t, key, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range [][]byte{{0}, {endpoint.KindHello}, {endpoint.KindDatagram, 1, 2}, {255}, []byte("GET / HTTP/1.1\r\n\r\n")} {
		s, err := q.OpenUniStreamSync(within(t, wait))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(first); err != nil {
			t.Fatal(err)
		}
		receive(t, "the refusal", s.Context().Done())
	}
	// Without a first byte, nothing is handed to a handler.
	s, err := q.OpenUniStreamSync(within(t, wait))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	good, err := q.OpenUniStreamSync(within(t, wait))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := good.Write([]byte{endpoint.KindStream, 'x'}); err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the good stream", b.pipes)
	var got [1]byte
	if _, err := io.ReadFull(r, got[:]); err != nil || got[0] != 'x' || len(b.pipes) != 0 {
		t.Errorf("%q came, %v", got, err)
	}
}

func TestAFirstStreamThatIsNoHelloIsRefused(t *testing.T) {
	a := open(t)
	key := newKey(t)
	conf := rawTLS(echoProtocol, certificate(t, key, 0))
	l, err := quic.ListenAddr("127.0.0.1:0", conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a.Permit(1, map[id.NodeID][]string{idOf(key): {l.Addr().String()}})
	for _, first := range []string{"HTTP/1.1 200 OK", "\x00", ""} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			q, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			if s, err := q.OpenUniStream(); err == nil {
				_, _ = s.Write([]byte(first))
				_ = s.Close()
			}
			<-q.Context().Done()
		}()
		_, err = a.OpenStream(within(t, wait), idOf(key), echoProtocol)
		wants(t, err, fault.EndpointProtocolUnknown, "hello")
		receive(t, "the end of the connection", done)
	}
}

func TestNoiseAtThePortHarmsNothing(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	c, err := net.Dial("udp", b.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3000 {
		noise := make([]byte, 1+i%1400)
		_, _ = rand.Read(noise)
		if i%3 == 0 {
			noise[0] |= 0xc0 // the long header of a QUIC handshake
		}
		_, _ = c.Write(noise)
	}
	a.mustCall(b, echoProtocol)
	if h := b.Holds(); h.Inbound != 1 {
		t.Errorf("b holds %+v", h)
	}
}
