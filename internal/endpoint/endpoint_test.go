package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

func TestPeersCallEachOther(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	b.mustCall(a, echoProtocol)
	if peer := receive(t, "the caller", b.served); peer != a.ID() {
		t.Errorf("b served %s", peer.Short())
	}
	if n := len(a.connections(b.ID(), echoProtocol)); n != 1 {
		t.Errorf("two calls made %d connections", n)
	}
	p := a.connections(b.ID(), echoProtocol)[0]
	if p.Address != b.Addr() || p.Path != "direct" || !p.Dialled || !p.Used || p.RoundTrip <= 0 || p.Sent == 0 || p.Received == 0 {
		t.Errorf("the state is %+v", p)
	}
	eventually(t, "it is told", func() bool { return len(of[event.PeerConnected](a.events)) > 0 })
	told := of[event.PeerConnected](a.events)
	if len(told) != 1 || told[0].Peer != b.ID() || told[0].Protocol != echoProtocol || !told[0].Dialled {
		t.Errorf("told %+v", told)
	}
}

func TestDialSelf(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", ":0", "0.0.0.0:0", "[::1]:0"} {
		n := open(t, func(c *endpoint.Config) { c.Listen = listen })
		if err := n.DialSelf(within(t, wait)); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
		eventually(t, "the proof leaves no connection", func() bool { return len(n.Peers()) == 0 })
	}
}

func TestManyWhoWantAPeerAtOnceShareOneDial(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { a.mustCallAsync(b) })
	}
	wg.Wait()
	eventually(t, "it is told", func() bool { return len(of[event.PeerConnected](a.events)) > 0 })
	if n := len(of[event.PeerConnected](a.events)); n != 1 {
		t.Errorf("50 calls made %d connections", n)
	}
}

func (n *node) mustCallAsync(peer *node) {
	if answer, err := n.call(peer.ID(), echoProtocol, "x"); err != nil || answer != peer.ID().Short()+" x" {
		n.t.Errorf("%q, %v", answer, err)
	}
}

func TestEachProtocolHasItsConnection(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	for _, p := range []string{echoProtocol, swimProtocol, joinProtocol} {
		a.mustCall(b, p)
		if n := len(a.connections(b.ID(), p)); n != 1 {
			t.Errorf("%s has %d connections", p, n)
		}
	}
}

func TestUniStreamsArriveWholeAndAreSeenAtOnce(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "a stream with no byte of the caller's", b.pipes)
	if r.Peer() != a.ID() || s.Peer() != b.ID() || r.RemoteAddr() != a.Addr() {
		t.Errorf("the stream is of %s at %s", r.Peer().Short(), r.RemoteAddr())
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 128<<10)
	go func() {
		_, _ = s.Write(sent)
		_ = s.CloseWrite()
	}()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d came, %v", len(got), len(sent), err)
	}
	receive(t, "the end of the stream", s.Done())
}

func TestAStreamInBothDirectionsIsSeenWithItsFirstByte(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel(0)
	a.mustCall(b, echoProtocol) // a later one is served before
	receive(t, "the later stream", b.served)
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	receive(t, "the first stream", b.served)
}

func TestCloseWriteEndsOnlyOneSideAndCancelBoth(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	answer, err := a.call(b.ID(), echoProtocol, "after my side has ended")
	if err != nil || !strings.HasSuffix(answer, "ended") {
		t.Fatalf("%q, %v", answer, err)
	}

	s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Cancel(7)
	_, err = s.Read(make([]byte, 1))
	wants(t, err, fault.EndpointStreamCancelled, "this node", "7", b.ID().Short())
	_, err = s.Write([]byte("x"))
	wants(t, err, fault.EndpointStreamCancelled)
	receive(t, "the end of the stream", s.Done())
	eventually(t, "the cancelled stream counts no more", func() bool {
		return a.connections(b.ID(), echoProtocol)[0].Streams == 0
	})
}

func TestTheOtherSideSeesTheCodeOfACancel(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the stream", b.pipes)
	r.Cancel(41)
	receive(t, "the writer learns of it without a write", s.Done())
	_, err = s.Write(make([]byte, 1<<20))
	wants(t, err, fault.EndpointStreamCancelled, "that node", "41", b.ID().Short(), pipeProtocol)

	s, err = a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r = receive(t, "the stream", b.pipes)
	s.Cancel(42)
	_, err = io.ReadAll(r)
	wants(t, err, fault.EndpointStreamCancelled, "that node", "42", a.ID().Short())
}

func TestStreamsThatNobodyServesAreRefused(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	_, err := a.call(b.ID(), noneProtocol, "x")
	wants(t, err, fault.EndpointStreamRefused, b.ID().Short(), noneProtocol)
	s, err := a.OpenUni(within(t, wait), b.ID(), noneProtocol)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, "the refusal", s.Done())
	_, err = s.Write(make([]byte, 1<<20))
	wants(t, err, fault.EndpointStreamRefused, b.ID().Short(), noneProtocol)
}

// A handler that has read what it needs may return before it sees the end.
func TestAHandlerThatReadsNoEndIsAnswerEnough(t *testing.T) {
	a := open(t)
	b := open(t, func(c *config) {
		c.Protocols[0].Bidi = func(_ context.Context, _ id.NodeID, s endpoint.Stream) {
			var b [1]byte
			if _, err := io.ReadFull(s, b[:]); err == nil {
				_, _ = s.Write(b[:])
			}
		}
	})
	acquaint(a, b)
	for range 20 {
		s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(s)
		if err != nil || string(answer) != "x" {
			t.Fatalf("%q, %v", answer, err)
		}
		receive(t, "the end of the stream", s.Done())
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatTheHandlerDoesNotReadIsRefused(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, "the stream", b.pipes)
	b.letGo()
	receive(t, "the writer learns that the reader is gone", s.Done())
	_, err = s.Write(make([]byte, 1<<20))
	wants(t, err, fault.EndpointStreamCancelled, "unread")
}

func TestDeadlinesEndCallsAndNameThePeer(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel(0)
	if _, err := s.Write([]byte("no end")); err != nil {
		t.Fatal(err)
	}
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err = s.Read(make([]byte, 1))
	wants(t, err, fault.EndpointCallOverdue, b.ID().Short(), echoProtocol)
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is no timeout to others", err)
	}
	// A deadline is not the end of the stream.
	_ = s.SetReadDeadline(time.Now().Add(wait))
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(s); err != nil || !strings.HasSuffix(string(answer), "no end") {
		t.Fatalf("%q, %v", answer, err)
	}
}

func TestAFullPipeIsBackpressure(t *testing.T) {
	const window = 64 << 10
	limit := func(c *endpoint.Config) {
		for i := range c.Protocols {
			c.Protocols[i].Limits.Window = window
		}
	}
	a, b := open(t, limit), open(t, limit)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the stream", b.pipes)
	_ = s.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	n, err := s.Write(make([]byte, 1<<20))
	wants(t, err, fault.EndpointCallOverdue, b.ID().Short())
	if n > 2*window {
		t.Errorf("%d bytes went ahead of a reader that reads nothing", n)
	}
	_ = s.SetWriteDeadline(time.Time{})
	go func() {
		_, _ = s.Write(make([]byte, 1<<20-n))
		_ = s.CloseWrite()
	}()
	if got, err := io.Copy(io.Discard, r); err != nil || got != 1<<20 {
		t.Fatalf("%d bytes came, %v", got, err)
	}
}

func TestACallerThatGivesUpDoesNotWait(t *testing.T) {
	a := open(t)
	nowhere := idOf(newKey(t))
	a.Permit(1, map[id.NodeID][]string{nowhere: {swallow(t)}})
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("the user has gone")
	done := make(chan error, 1)
	go func() {
		_, err := a.OpenStream(ctx, nowhere, echoProtocol)
		done <- err
	}()
	cancel(reason)
	err := receive(t, "the end of the call", done)
	wants(t, err, fault.EndpointCallCancelled, nowhere.Short())
	if !errors.Is(err, reason) {
		t.Errorf("%v does not say why", err)
	}
}

func TestOpenRefusesWhatItCannotBe(t *testing.T) {
	taken := open(t)
	base := endpoint.Config{Key: newKey(t), Listen: "127.0.0.1:0"}
	for name, c := range map[string]struct {
		change func(*endpoint.Config)
		code   fault.Code
		words  []string
	}{
		"port taken":       {func(c *endpoint.Config) { c.Listen = taken.addr() }, fault.EndpointPortTaken, []string{taken.addr(), "--listen"}},
		"foreign address":  {func(c *endpoint.Config) { c.Listen = "192.0.2.1:0" }, fault.EndpointBindRefused, []string{"192.0.2.1"}},
		"no port":          {func(c *endpoint.Config) { c.Listen = "127.0.0.1" }, fault.EndpointAddressInvalid, []string{"127.0.0.1", "host:port"}},
		"port too large":   {func(c *endpoint.Config) { c.Listen = "127.0.0.1:65536" }, fault.EndpointAddressInvalid, []string{"65535"}},
		"port by name":     {func(c *endpoint.Config) { c.Listen = "127.0.0.1:http" }, fault.EndpointAddressInvalid, []string{"number"}},
		"no such host":     {func(c *endpoint.Config) { c.Listen = "host.invalid:0" }, fault.EndpointAddressInvalid, []string{"host.invalid"}},
		"no key":           {func(c *endpoint.Config) { c.Key = nil }, fault.EndpointConfigInvalid, nil},
		"protocol twice":   {func(c *endpoint.Config) { c.Protocols = []endpoint.Protocol{{Name: "a"}, {Name: "a"}} }, fault.EndpointConfigInvalid, nil},
		"protocol unnamed": {func(c *endpoint.Config) { c.Protocols = []endpoint.Protocol{{}} }, fault.EndpointConfigInvalid, nil},
		"reserved name":    {func(c *endpoint.Config) { c.Protocols = []endpoint.Protocol{{Name: "muster/proof/1"}} }, fault.EndpointConfigInvalid, nil},
		"mark in the name": {func(c *endpoint.Config) { c.Protocols = []endpoint.Protocol{{Name: "a;alone"}} }, fault.EndpointConfigInvalid, nil},
		"tiny window": {func(c *endpoint.Config) {
			c.Protocols = []endpoint.Protocol{{Name: "a", Limits: endpoint.Limits{Window: 1}}}
		}, fault.EndpointConfigInvalid, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			e, err := endpoint.Open(cfg)
			if err == nil {
				_ = e.Close(within(t, wait))
			}
			wants(t, err, c.code, c.words...)
		})
	}
}

func TestNothingWorksAfterCloseAndNothingCrashes(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(within(t, wait)); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, "the end of the endpoint", a.Done())
	wants(t, a.Err(), fault.EndpointSocketClosed)
	_, err = s.Write([]byte("x"))
	wants(t, err, fault.EndpointSocketClosed)
	_, err = a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointSocketClosed)
	_, err = a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	wants(t, err, fault.EndpointSocketClosed)
	_, err = a.OpenStreamAt(within(t, wait), b.ID(), echoProtocol, b.addr())
	wants(t, err, fault.EndpointSocketClosed)
	wants(t, a.SendDatagram(b.ID(), swimProtocol, []byte("x")), fault.EndpointSocketClosed)
	wants(t, a.DialSelf(within(t, wait)), fault.EndpointSocketClosed)
	a.Permit(9, nil)
	if len(a.Peers()) != 0 {
		t.Error("it still has peers")
	}
	eventually(t, "b hears that a is gone", func() bool { return len(of[event.PeerDisconnected](b.events)) > 0 })
	wants(t, of[event.PeerDisconnected](b.events)[0].Fault, fault.EndpointConnectionClosed, a.ID().Short(), "ending")
}

func TestCloseSaysWhatStillRuns(t *testing.T) {
	stuck := make(chan struct{})
	a := open(t)
	b := open(t, func(c *endpoint.Config) {
		c.Protocols = []endpoint.Protocol{{Name: echoProtocol, Bidi: func(context.Context, id.NodeID, endpoint.Stream) { <-stuck }}}
	})
	t.Cleanup(func() { close(stuck) })
	acquaint(a, b)
	s, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler runs", func() bool { return len(b.Peers()) == 1 && b.Peers()[0].Streams == 1 })
	err = b.Close(within(t, 300*time.Millisecond))
	wants(t, err, fault.EndpointCloseOverdue, "1 of its tasks")
}
