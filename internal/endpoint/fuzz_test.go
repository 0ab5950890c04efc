package endpoint_test

import (
	"bytes"
	"net"
	"strconv"
	"testing"

	"muster/internal/endpoint"
)

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"127.0.0.1:6878", "[::1]:0", ":1", "a:b:c", "host:+1", "host:01", "[fe80::1%eth0]:9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, least := range []int{0, 1} {
			host, port, flaw := endpoint.SplitAddress(text, least)
			if flaw != "" {
				if host != "" || port != 0 && least > 0 && host == "" && port > 65535 {
					t.Errorf("%q: %s, with %q and %d", text, flaw, host, port)
				}
				continue
			}
			h, p, err := net.SplitHostPort(text)
			if err != nil || h != host || p != strconv.Itoa(port) || port < least || port > 65535 || least > 0 && host == "" {
				t.Errorf("%q was read as %q and %d", text, host, port)
			}
		}
	})
}

// A permitted peer writes what it likes to a uni-stream: only whole datagrams
// reach a handler, and the connection goes on.
func FuzzUniStream(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{endpoint.KindDatagram})
	f.Add([]byte{endpoint.KindDatagram, 1, 2, 3})
	f.Add([]byte{endpoint.KindStream, 1})
	f.Add([]byte{endpoint.KindHello})
	f.Add(append([]byte{endpoint.KindDatagram}, make([]byte, endpoint.MostDatagram+1)...))
	n := open(f)
	key := newKey(f)
	n.permits(1, idOf(key))
	q, err := newRaw(f).admittedTo(n, rawTLS(swimProtocol, certificate(f, key, 0)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := q.OpenUniStreamSync(within(t, wait))
		if err != nil {
			t.Fatal(err)
		}
		_, writing := s.Write(b)
		_ = s.Close()
		if len(b) > 0 && b[0] == endpoint.KindDatagram && len(b) <= 1+endpoint.MostDatagram {
			if g := receive(t, "the datagram", n.datagrams); writing != nil || g.peer != idOf(key) || !bytes.Equal(g.b, b[1:]) {
				t.Errorf("%d bytes became %d, %v", len(b)-1, len(g.b), writing)
			}
		}
		if len(n.datagrams) != 0 || q.Context().Err() != nil {
			t.Errorf("%d datagrams came, the connection: %v", len(n.datagrams), q.Context().Err())
		}
	})
}
