package endpoint_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// certificate of signer, followed by more certificates of it.
func certificate(t testing.TB, signer crypto.Signer, more int) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
	for range more {
		c.Certificate = append(c.Certificate, der)
	}
	return c
}

func ecdsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A node looks at nothing of a certificate but its key: so it must be the one
// that TLS made the client prove, alone, and of the right kind.
func TestOnlyOneCertificateOfTheRightKindIsLetIn(t *testing.T) {
	n := open(t)
	key := newKey(t)
	n.permits(1, idOf(key))
	stolen := certificate(t, key, 0)
	stolen.PrivateKey = newKey(t)
	for name, conf := range map[string]*tls.Config{
		"no certificate":       rawTLS(echoProtocol),
		"two certificates":     rawTLS(echoProtocol, certificate(t, key, 1)),
		"an ECDSA key":         rawTLS(echoProtocol, certificate(t, ecdsaKey(t), 0)),
		"another's id":         rawTLS(echoProtocol, certificate(t, newKey(t), 0)),
		"a stolen certificate": rawTLS(echoProtocol, stolen),
		"no such protocol":     rawTLS("h3", certificate(t, key, 0)),
		"no protocol":          {MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate(t, key, 0)}},
		"stranger's two":       rawTLS(joinProtocol, certificate(t, key, 1)),
	} {
		if q, err := newRaw(t).admittedTo(n, conf); err == nil {
			t.Errorf("%s: let in", name)
			_ = q.CloseWithError(0, "")
		}
	}
	if q, err := newRaw(t).admittedTo(n, rawTLS(echoProtocol, certificate(t, key, 0))); err != nil {
		t.Errorf("the right certificate: %v", err)
	} else {
		_ = q.CloseWithError(0, "")
	}
	eventually(t, "nothing is left of them", func() bool { return n.Holds().Inbound == 0 && n.Holds().Handshaking == 0 })
}

func TestOneCertificateAndNoTickets(t *testing.T) {
	n := open(t)
	key := newKey(t)
	n.permits(1, idOf(key))
	conf := rawTLS(echoProtocol, certificate(t, key, 0))
	tickets := &countingCache{}
	conf.ClientSessionCache = tickets
	var first []byte
	for range 3 {
		q, err := newRaw(t).admittedTo(n, conf)
		if err != nil {
			t.Fatal(err)
		}
		state := q.ConnectionState().TLS
		if first == nil {
			first = state.PeerCertificates[0].Raw
		}
		if string(first) != string(state.PeerCertificates[0].Raw) || state.DidResume {
			t.Error("the certificate changed, or a session was resumed")
		}
		_ = q.CloseWithError(0, "")
	}
	if tickets.put > 0 {
		t.Errorf("%d tickets were given out", tickets.put)
	}
}

type countingCache struct{ put int }

func (*countingCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *countingCache) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		c.put++
	}
}

func TestAnotherNodeAtTheAddressIsNamed(t *testing.T) {
	a, b := open(t), open(t)
	absent := idOf(newKey(t))
	a.Permit(1, map[id.NodeID][]string{absent: {b.addr()}})
	b.permits(1, a.ID())
	words := []string{absent.Short(), b.ID().Short(), b.addr(), "pool replace"}
	wants(t, a.DialBack(within(t, wait), absent, b.addr()), fault.EndpointIdentityMismatched, words...)
	_, err := a.OpenStream(within(t, wait), absent, echoProtocol)
	wants(t, err, fault.EndpointIdentityMismatched, words...)
	if len(a.Peers()) != 0 {
		t.Error("a connection with the wrong node is kept")
	}
	eventually(t, "b keeps none either", func() bool { return len(b.Peers()) == 0 })
}

func TestWhatIsNoNodeAtTheAddressIsSaid(t *testing.T) {
	a := open(t)
	peer := idOf(newKey(t))
	for _, cert := range []tls.Certificate{certificate(t, ecdsaKey(t), 0), certificate(t, newKey(t), 1)} {
		l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{echoProtocol}, MinVersion: tls.VersionTLS13}, nil)
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.UDPAddr).String()
		a.Permit(1, map[id.NodeID][]string{peer: {addr}})
		_, err = a.OpenStream(within(t, wait), peer, echoProtocol)
		wants(t, err, fault.EndpointIdentityMismatched, addr, peer.Short(), "no node")
		_ = l.Close()
	}
}

func TestDialBackProvesWhoAnswers(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	if err := a.DialBack(within(t, wait), b.ID(), b.addr()); err != nil {
		t.Fatal(err)
	}
	if err := a.DialBack(within(t, wait), b.ID(), "localhost:"+portOf(b)); err != nil {
		t.Errorf("by name: %v", err)
	}
	eventually(t, "the proof leaves no connection", func() bool { return len(a.Peers())+len(b.Peers()) == 0 })
	dead := swallow(t)
	err := a.DialBack(within(t, 200*time.Millisecond), b.ID(), dead)
	wants(t, err, fault.EndpointPeerUnreachable, dead, b.ID().Short())
	for _, addr := range []string{"", "nowhere", "127.0.0.1:0", ":1", "127.0.0.1:99999", "host.invalid:1"} {
		wants(t, a.DialBack(within(t, wait), b.ID(), addr), fault.EndpointAddressInvalid, addr)
	}
	b.Permit(2, nil)
	wants(t, a.DialBack(within(t, wait), b.ID(), b.addr()), fault.EndpointPeerRefused, b.ID().Short(), a.ID().Short(), b.addr())
	wants(t, a.DialBack(within(t, wait), idOf(newKey(t)), b.addr()), fault.EndpointPeerUnknown)
}

func portOf(n *node) string {
	_, port, _ := net.SplitHostPort(n.addr())
	return port
}

func TestStrangersAreRefusedInTheHandshakeAndToldOf(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	b.Permit(2, nil)
	_, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointPeerRefused, b.ID().Short(), a.ID().Short(), b.addr(), echoProtocol, "pool add")
	eventually(t, "the refusal is told", func() bool { return len(of[event.StrangerRefused](b.events)) > 0 })
	told := of[event.StrangerRefused](b.events)[0]
	if told.Peer != a.ID() || told.Protocol != echoProtocol || told.Address != a.addr() || told.Reason == "" {
		t.Errorf("told %+v", told)
	}
	if len(of[event.PeerConnected](b.events)) != 0 || len(b.served) != 0 {
		t.Error("the stranger was connected")
	}
	// A flood of them does not flood the journal.
	for range 20 {
		_, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
		wants(t, err, fault.EndpointPeerRefused)
	}
	if n := len(of[event.StrangerRefused](b.events)); n > 10 {
		t.Errorf("%d events of 21 refusals", n)
	}
}

func TestPeersOfOtherBuildsAreSaid(t *testing.T) {
	a := open(t)
	b := open(t, func(c *config) { c.Protocols = nil })
	acquaint(a, b)
	_, err := a.OpenStream(within(t, wait), b.ID(), echoProtocol)
	wants(t, err, fault.EndpointProtocolUnknown, b.ID().Short(), echoProtocol)
	_, err = a.OpenStream(within(t, wait), b.ID(), "never/heard/1")
	wants(t, err, fault.EndpointConfigInvalid, "never/heard/1")
}
