package endpoint_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/id"
)

// swallow is the address of a UDP socket that answers nothing: a peer behind
// a firewall, stopped or gone.
func swallow(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}

// wire carries packets between whoever sends to its address and one node,
// with a delay each way, and can be cut.
type wire struct {
	addr  string
	to    *net.UDPAddr
	delay time.Duration
	cut   atomic.Bool // nothing passes
	deaf  atomic.Bool // nothing comes back

	front *net.UDPConn
	mu    sync.Mutex
	backs map[string]*net.UDPConn // by sender
	tasks sync.WaitGroup
	over  chan struct{}
}

func newWire(t testing.TB, to *node, delay time.Duration) *wire {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{
		addr: front.LocalAddr().String(), to: net.UDPAddrFromAddrPort(to.Addr()), delay: delay,
		front: front, backs: map[string]*net.UDPConn{}, over: make(chan struct{}),
	}
	w.tasks.Go(w.run)
	t.Cleanup(func() {
		close(w.over)
		_ = front.Close()
		w.mu.Lock()
		for _, b := range w.backs {
			_ = b.Close()
		}
		w.mu.Unlock()
		w.tasks.Wait()
	})
	return w
}

func (w *wire) run() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := w.front.ReadFromUDP(buf)
		if err != nil {
			return
		}
		if back := w.back(from); back != nil {
			w.pass(buf[:n], func(b []byte) { _, _ = back.WriteToUDP(b, w.to) })
		}
	}
}

// back is the socket by which a sender's packets go on.
func (w *wire) back(from *net.UDPAddr) *net.UDPConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.backs[from.String()]
	if b == nil {
		var err error
		if b, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			return nil
		}
		w.backs[from.String()] = b
		w.tasks.Go(func() {
			buf := make([]byte, 64<<10)
			for {
				n, _, err := b.ReadFromUDP(buf)
				if err != nil {
					return
				}
				if !w.deaf.Load() {
					w.pass(buf[:n], func(b []byte) { _, _ = w.front.WriteToUDP(b, from) })
				}
			}
		})
	}
	return b
}

func (w *wire) pass(b []byte, on func([]byte)) {
	if w.cut.Load() {
		return
	}
	b = append([]byte(nil), b...)
	if w.delay == 0 {
		on(b)
		return
	}
	w.tasks.Go(func() {
		select {
		case <-time.After(w.delay):
			on(b)
		case <-w.over:
		}
	})
}

// raw is a QUIC client that keeps to no rule of the endpoint's.
type raw struct {
	t         testing.TB
	transport *quic.Transport
}

func newRaw(t testing.TB) *raw {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, transport: &quic.Transport{Conn: c}}
	t.Cleanup(func() {
		_ = r.transport.Close()
		_ = c.Close()
	})
	return r
}

func (r *raw) dial(ctx context.Context, to *node, conf *tls.Config) (*quic.Conn, error) {
	return r.transport.Dial(ctx, net.UDPAddrFromAddrPort(to.Addr()), conf, &quic.Config{EnableDatagrams: true, MaxIdleTimeout: wait})
}

// admittedTo dials and waits for the hello; the error is the refusal.
func (r *raw) admittedTo(to *node, conf *tls.Config) (*quic.Conn, error) {
	ctx := within(r.t, wait)
	q, err := r.dial(ctx, to, conf)
	if err != nil {
		return nil, err
	}
	s, err := q.AcceptUniStream(ctx)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(s, make([]byte, 1))
	return q, err
}

// rawTLS is the configuration of a client that shows certs.
func rawTLS(alpn string, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{alpn}, Certificates: certs, ServerName: "x"}
}

// permits makes n know peers without addresses.
func (n *node) permits(epoch uint64, peers ...id.NodeID) {
	set := map[id.NodeID][]string{}
	for _, p := range peers {
		set[p] = nil
	}
	n.Permit(epoch, set)
}
