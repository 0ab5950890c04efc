package endpoint_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// patient nodes do not notice by silence that a peer is gone.
func patient(c *config) { c.IdleTimeout, c.KeepAlive = time.Minute, time.Second }

// hasty nodes do so soon.
func hasty(c *config) { c.IdleTimeout, c.KeepAlive = time.Second, 200*time.Millisecond }

func TestAProcessStartedAnewAtItsPortIsReachedAtOnce(t *testing.T) {
	a := open(t, patient)
	key := newKey(t)
	a.permits(1, idOf(key))
	first := startProcess(t, key, "127.0.0.1:0", a, "")
	a.Permit(1, map[id.NodeID][]string{first.id: {first.addr}})
	first.mustAnswer(a)
	first.kill()

	second := startProcess(t, key, first.addr, a, "")
	// The first call can meet the old connection.
	if answer, err := a.call(second.id, echoProtocol, "x"); err != nil {
		wants(t, err, fault.EndpointPeerRestarted, second.id.Short(), second.addr)
	} else if answer != second.pid+" x" {
		t.Fatalf("%q answers", answer)
	}
	second.mustAnswer(a)
	eventually(t, "the old connection is gone", func() bool { return len(a.Peers()) == 1 })
	eventually(t, "its end is told", func() bool { return len(of[event.PeerDisconnected](a.events)) == 1 })
	wants(t, of[event.PeerDisconnected](a.events)[0].Fault, fault.EndpointPeerRestarted)
}

// The packets of an idle connection are so small that they are not answered
// by the reset that tells of a new process: nudges are larger.
func TestAProcessStartedAnewIsNoticedOnAnIdleConnection(t *testing.T) {
	a := open(t, patient)
	key := newKey(t)
	a.permits(1, idOf(key))
	first := startProcess(t, key, "127.0.0.1:0", a, "")
	a.Permit(1, map[id.NodeID][]string{first.id: {first.addr}})
	first.mustAnswer(a)
	first.kill()
	startProcess(t, key, first.addr, a, "")
	eventually(t, "it is told", func() bool { return len(of[event.PeerDisconnected](a.events)) == 1 })
	wants(t, of[event.PeerDisconnected](a.events)[0].Fault, fault.EndpointPeerRestarted)
}

func TestAProcessThatDialsFirstIsReachedWithoutAFailure(t *testing.T) {
	for _, dials := range []string{echoProtocol, swimProtocol} {
		t.Run(dials, func(t *testing.T) {
			a := open(t, patient)
			key := newKey(t)
			a.permits(1, idOf(key))
			first := startProcess(t, key, "127.0.0.1:0", a, "")
			a.Permit(1, map[id.NodeID][]string{first.id: {first.addr}})
			first.mustAnswer(a)
			first.kill()

			// At another port: nothing answers for the old process.
			second := startProcess(t, key, "127.0.0.1:0", a, dials)
			second.mustAnswer(a)
		})
	}
}

func TestAProcessAtANewAddressIsReachedOnceItIsPermitted(t *testing.T) {
	a := open(t, patient)
	key := newKey(t)
	first := startProcess(t, key, "127.0.0.1:0", a, "")
	a.Permit(1, map[id.NodeID][]string{first.id: {first.addr}})
	first.mustAnswer(a)
	first.kill()
	second := startProcess(t, key, "127.0.0.1:0", a, "")
	a.Permit(2, map[id.NodeID][]string{second.id: {second.addr}})
	second.mustAnswer(a)
	eventually(t, "the stale connection is gone", func() bool { return len(a.Peers()) == 1 })
}

func TestCallsToAKilledProcessEndByTheirDeadlineAndThenBySilence(t *testing.T) {
	a := open(t, hasty)
	p := startProcess(t, newKey(t), "127.0.0.1:0", a, "")
	a.Permit(1, map[id.NodeID][]string{p.id: {p.addr}})
	p.mustAnswer(a)
	s := unanswered(t, a, p.id)
	p.kill()
	callsEndBySilence(t, a, p, s)
	_, err := a.OpenStream(within(t, 300*time.Millisecond), p.id, echoProtocol)
	wants(t, err, fault.EndpointPeerUnreachable, p.id.Short(), p.addr)
}

func TestAStoppedProcessIsSilentAndServesAgainWhenItGoesOn(t *testing.T) {
	needsSignals(t)
	a := open(t, hasty)
	p := startProcess(t, newKey(t), "127.0.0.1:0", a, "")
	a.Permit(1, map[id.NodeID][]string{p.id: {p.addr}})
	p.mustAnswer(a)
	s := unanswered(t, a, p.id)
	p.signal(t, stopSignal)
	callsEndBySilence(t, a, p, s)
	_, err := a.OpenStream(within(t, 300*time.Millisecond), p.id, echoProtocol)
	wants(t, err, fault.EndpointPeerUnreachable, p.id.Short(), p.addr)
	p.signal(t, continueSignal)
	p.mustAnswer(a)
}

// unanswered is a stream whose peer waits for more.
func unanswered(t *testing.T, a *node, peer id.NodeID) endpoint.Stream {
	t.Helper()
	s, err := a.OpenStream(within(t, wait), peer, echoProtocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(s, "x"); err != nil {
		t.Fatal(err)
	}
	return s
}

// callsEndBySilence holds that a call to a peer that says nothing ends by its
// deadline, that the age of the contact shows it, and that a call without a
// deadline ends when the peer has been silent too long.
func callsEndBySilence(t *testing.T, a *node, p *process, s endpoint.Stream) {
	t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, fault.EndpointPeerSilenced) {
		wants(t, err, fault.EndpointCallOverdue, p.id.Short())
	}
	eventually(t, "the contact ages", func() bool {
		c := a.connections(p.id, echoProtocol)
		return len(c) == 0 || c[0].Contact > 300*time.Millisecond
	})
	_ = s.SetReadDeadline(time.Time{})
	_, err := s.Read(make([]byte, 1))
	wants(t, err, fault.EndpointPeerSilenced, p.id.Short(), p.addr, "1s")
	eventually(t, "the connection is gone", func() bool { return len(a.Peers()) == 0 })
}

func TestACutLinkEndsCallsAndAHealedOneServesAgain(t *testing.T) {
	a, b := open(t, hasty), open(t, hasty)
	w := newWire(t, b, 0)
	a.Permit(1, map[id.NodeID][]string{b.ID(): {w.addr}})
	b.permits(1, a.ID())
	a.mustCall(b, echoProtocol)
	s := unanswered(t, a, b.ID())
	w.cut.Store(true)
	_, err := s.Read(make([]byte, 1))
	wants(t, err, fault.EndpointPeerSilenced, b.ID().Short(), w.addr)
	eventually(t, "both sides have let go", func() bool { return len(a.Peers())+len(b.Peers()) == 0 })
	_, err = a.OpenStream(within(t, 100*time.Millisecond), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointPeerUnreachable, w.addr)
	w.cut.Store(false)
	a.mustCall(b, echoProtocol)
}

func TestABlackHoleIsADeadlineAndNoHang(t *testing.T) {
	a := open(t, func(c *config) { c.DialTimeout = 300 * time.Millisecond })
	peer := idOf(newKey(t))
	one, two := swallow(t), swallow(t)
	a.Permit(1, map[id.NodeID][]string{peer: {one, two}})
	_, err := a.OpenStream(within(t, wait), peer, echoProtocol)
	wants(t, err, fault.EndpointPeerUnreachable, peer.Short(), one, two)
	if a.Holds().Links != 0 {
		t.Error("the failed dial is kept")
	}
}

func TestTheAddressThatAnswersIsUsed(t *testing.T) {
	a, b, other := open(t), open(t), open(t)
	b.permits(1, a.ID())
	a.Permit(1, map[id.NodeID][]string{b.ID(): {swallow(t), other.addr(), "host.invalid:1", b.addr()}})
	a.mustCall(b, echoProtocol)
	if p := a.connections(b.ID(), echoProtocol); len(p) != 1 || p[0].Address != b.Addr() {
		t.Errorf("the connections are %+v", p)
	}
}

func TestAFailedSocketIsToldAtOnce(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	_ = a.BreakSocket()
	receive(t, "the end of the endpoint", a.Done())
	wants(t, a.Err(), fault.EndpointSocketFailed, a.addr())
	eventually(t, "it is told", func() bool { return len(of[event.EndpointFailed](a.events)) == 1 })
	_, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointSocketFailed)
}
