package endpoint

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/id"
)

// instance names one Open of an endpoint: the digest of its certificate.
type instance [sha256.Size]byte

// newCertificate makes the certificate of one Open. Nobody looks at its times
// or names: only its key and, to tell processes apart, its digest count.
func newCertificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "muster"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// derivedKeys are the same in every process of one identity: a new one can
// tell peers of the old one, by a stateless reset, that it is gone.
func derivedKeys(key ed25519.PrivateKey) (reset quic.StatelessResetKey, token quic.TokenGeneratorKey) {
	for purpose, into := range map[string][]byte{"muster stateless reset 1": reset[:], "muster address token 1": token[:]} {
		derived, err := hkdf.Key(sha256.New, key.Seed(), nil, purpose, len(into))
		if err != nil {
			panic("endpoint: " + err.Error()) // only for lengths beyond 255 digests
		}
		copy(into, derived)
	}
	return reset, token
}

// tlsConfig trusts nobody by itself: the caller sets VerifyConnection.
func (e *Endpoint) tlsConfig(alpn ...string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{e.cert},
		NextProtos:             alpn,
		ServerName:             "muster",
		InsecureSkipVerify:     true, // no authority signs node ids; VerifyConnection compares keys
		SessionTicketsDisabled: true, // a resumed session would show no certificate
	}
}

// clientTLS accepts only the holder of peer's key.
func (e *Endpoint) clientTLS(peer id.NodeID, alpn string) *tls.Config {
	c := e.tlsConfig(alpn)
	c.VerifyConnection = func(state tls.ConnectionState) error {
		got, _, err := identify(state)
		if err != nil || got != peer {
			return &mismatch{got: got, why: err}
		}
		return nil
	}
	return c
}

// serverTLS lets in whom the endpoint permits, see admit.
func (e *Endpoint) serverTLS() *tls.Config {
	var alpn []string
	for name := range e.protocols {
		alpn = append(alpn, alpnOf(name, false), alpnOf(name, true))
	}
	c := e.tlsConfig(alpn...)
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(tls.ConnectionState) error { return errors.New("the hello was not looked at") }
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		from := hello.Conn.RemoteAddr()
		one := c.Clone()
		one.GetConfigForClient = nil
		one.VerifyConnection = func(state tls.ConnectionState) error { return e.admit(state, from) }
		return one, nil
	}
	return c
}

// identify reads who the peer is from a handshake, in which TLS has made it
// prove that it holds the key.
func identify(state tls.ConnectionState) (id.NodeID, instance, error) {
	if len(state.PeerCertificates) != 1 {
		return id.NodeID{}, instance{}, errors.New("it must show exactly one certificate")
	}
	leaf := state.PeerCertificates[0]
	key, ok := leaf.PublicKey.(ed25519.PublicKey)
	peer := id.NodeIDOf(key)
	if !ok || peer.IsZero() {
		return id.NodeID{}, instance{}, errors.New("its certificate must hold an ed25519 key")
	}
	return peer, sha256.Sum256(leaf.Raw), nil
}

// mismatch ends a handshake with somebody else than was dialled.
type mismatch struct {
	got id.NodeID // none where why is set
	why error
}

func (m *mismatch) Error() string {
	if m.why != nil {
		return m.why.Error()
	}
	return "node " + m.got.Short() + " answers"
}
