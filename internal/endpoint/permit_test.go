package endpoint_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

func TestARemovedPeerIsCutOffWithItsStreams(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	s, err := a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the stream", b.pipes)
	b.Permit(2, nil)
	receive(t, "a's stream ends", s.Done())
	_, err = s.Write([]byte("x"))
	wants(t, err, fault.EndpointPeerRefused, b.ID().Short(), a.ID().Short())
	_, err = io.ReadAll(r)
	wants(t, err, fault.EndpointPeerUnknown, a.ID().Short())
	receive(t, "the handler's context ends", b.ended)
	_, err = a.OpenUni(within(t, wait), b.ID(), pipeProtocol)
	wants(t, err, fault.EndpointPeerRefused, b.ID().Short())
	_, err = b.OpenUni(within(t, wait), a.ID(), pipeProtocol)
	wants(t, err, fault.EndpointPeerUnknown, a.ID().Short(), "pool add")
}

func TestAnOlderSetIsIgnoredAndOneOfTheSameEpochReplaces(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	all := map[id.NodeID][]string{a.ID(): {a.addr()}}
	for _, c := range []struct {
		epoch uint64
		peers map[id.NodeID][]string
		taken bool
		knows bool
	}{{5, all, true, true}, {4, nil, false, true}, {5, nil, true, false}, {5, all, true, true}, {6, nil, true, false}, {5, all, false, false}} {
		if taken := b.Permit(c.epoch, c.peers); taken != c.taken {
			t.Fatalf("epoch %d: taken is %t", c.epoch, taken)
		}
		_, err := a.call(b.ID(), echoProtocol, "x")
		if c.knows && err != nil || !c.knows && !errors.Is(err, fault.EndpointPeerRefused) {
			t.Fatalf("epoch %d: %v", c.epoch, err)
		}
	}
}

func TestTheSetIsACopy(t *testing.T) {
	a, b := open(t), open(t)
	b.permits(1, a.ID())
	addrs := []string{b.addr()}
	peers := map[id.NodeID][]string{b.ID(): addrs}
	a.Permit(1, peers)
	addrs[0] = "nowhere"
	delete(peers, b.ID())
	a.mustCall(b, echoProtocol)
}

func TestADialToARemovedPeerIsGivenUp(t *testing.T) {
	a := open(t)
	peer := idOf(newKey(t))
	a.Permit(1, map[id.NodeID][]string{peer: {swallow(t)}})
	done := make(chan error, 1)
	go func() {
		_, err := a.OpenStream(within(t, wait), peer, echoProtocol)
		done <- err
	}()
	eventually(t, "the dial has begun", func() bool { return a.Holds().Links == 1 })
	a.Permit(2, nil)
	wants(t, receive(t, "the end of the dial", done), fault.EndpointPeerUnknown, peer.Short())
}

// The orchestrator knows ids before addresses: its nodes dial first.
func TestAPeerWithoutAnAddressIsReachedOnceItHasDialled(t *testing.T) {
	a, b := open(t), open(t)
	a.permits(1, b.ID())
	b.Permit(1, map[id.NodeID][]string{a.ID(): {a.addr()}})
	_, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointPeerUnknown, b.ID().Short(), "address")
	b.mustCall(a, echoProtocol)
	a.mustCall(b, echoProtocol)
	a.mustCall(b, swimProtocol) // by the address that was learned
}

func TestStrangersComeInByOpenProtocolsAlone(t *testing.T) {
	a, b := open(t), open(t)
	s, err := a.OpenStreamAt(within(t, wait), b.ID(), joinProtocol, b.addr())
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := converse(s, "let me in"); err != nil || answer != b.ID().Short()+" let me in" {
		t.Fatalf("%q, %v", answer, err)
	}
	eventually(t, "the connection ends with its stream", func() bool { return len(a.Peers())+len(b.Peers()) == 0 })
	_, err = a.OpenStreamAt(within(t, wait), b.ID(), echoProtocol, b.addr())
	wants(t, err, fault.EndpointPeerUnknown)
	_, err = b.OpenStream(within(t, wait), a.ID(), joinProtocol)
	wants(t, err, fault.EndpointPeerUnknown)
	if h := b.Holds(); h.Strangers != 0 || h.Inbound != 0 || h.Links != 0 {
		t.Errorf("b still holds %+v", h)
	}
}

func TestStrangersAreFewAndDoNotStay(t *testing.T) {
	b := open(t, func(c *config) { c.Strangers, c.Stay = 2, 500*time.Millisecond })
	var last error
	for range 3 {
		q, err := newRaw(t).admittedTo(b, rawTLS(joinProtocol, certificate(t, newKey(t), 0)))
		if err == nil {
			defer q.CloseWithError(0, "")
		}
		last = err
	}
	if last == nil {
		t.Error("a third stranger was let in")
	}
	// They take nobody's place who is permitted, and their time ends.
	a := open(t)
	acquaint(a, b)
	a.mustCall(b, joinProtocol)
	eventually(t, "their time is up", func() bool { return b.Holds().Strangers == 0 })
	if len(b.connections(a.ID(), joinProtocol)) != 1 {
		t.Error("the permitted peer's connection went with them")
	}
}

func TestAStrangerThatIsTakenInStays(t *testing.T) {
	b := open(t, func(c *config) { c.Stay = 500 * time.Millisecond })
	key := newKey(t)
	q, err := newRaw(t).admittedTo(b, rawTLS(joinProtocol, certificate(t, key, 0)))
	if err != nil {
		t.Fatal(err)
	}
	b.permits(1, idOf(key))
	if b.Holds().Strangers != 0 {
		t.Error("it is still a stranger")
	}
	eventually(t, "the time of strangers is over", func() bool {
		p := b.connections(idOf(key), joinProtocol)
		return len(p) == 0 || p[0].Age > 900*time.Millisecond
	})
	if q.Context().Err() != nil {
		t.Error("it was thrown out all the same")
	}
	b.Permit(2, nil)
	eventually(t, "removed, it is a stranger and must go", func() bool { return q.Context().Err() != nil })
	if n := len(of[event.PeerDisconnected](b.events)); n > 1 {
		t.Errorf("told %d ends of one connection", n)
	}
}
