package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// wires is a listener whose connections are pipes, for bubbles.
type wires struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// near is a connection of this machine's own.
type near struct{ net.Conn }

func (near) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func newWires() *wires { return &wires{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wires) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (w *wires) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case w.conns <- near{theirs}:
		return ours, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// with serves a backend to a client while test runs.
func with(t *testing.T, b Backend, test func(t *testing.T, c *Client, w *wires)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		w := newWires()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, w, b) }()
		c := NewClient("127.0.0.1:1")
		transport := &http.Transport{DialContext: w.dial}
		c.http = &http.Client{Transport: transport}
		test(t, c, w)
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func discard(string) error { return nil }

// An answer of which nothing comes for a while lives, and a client knows it.
func TestASlowAnswerIsWaitedFor(t *testing.T) {
	with(t, Backend{Generate: func(_ context.Context, _ Prompt, emit func(string) error) (Done, error) {
		time.Sleep(time.Minute)
		err := emit("late")
		time.Sleep(time.Minute)
		return Done{FinishReason: "stop"}, err
	}}, func(t *testing.T, c *Client, _ *wires) {
		var text strings.Builder
		done, err := c.Run(t.Context(), Prompt{Prompt: "x"}, func(s string) error { text.WriteString(s); return nil })
		if err != nil || done.FinishReason != "stop" || text.String() != "late" {
			t.Errorf("%q, %+v, %v", text.String(), done, err)
		}
	})
}

// A fault that comes late still comes typed, and one that comes at once by its
// status too.
func TestFaultsCrossAsTheyAre(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		with(t, Backend{Generate: func(context.Context, Prompt, func(string) error) (Done, error) {
			time.Sleep(after)
			return Done{}, fault.New(fault.NodeDied, "gate", "name", "n2")
		}}, func(t *testing.T, c *Client, _ *wires) {
			_, err := c.Run(t.Context(), Prompt{Prompt: "x"}, discard)
			if f := fault.From(err); f.Code != fault.NodeDied || f.Attr("name") != "n2" {
				t.Errorf("after %s came %v", after, err)
			}
		})
	}
}

// An orchestrator that was stopped says nothing any more: the client ends.
func TestASilentOrchestratorIsLost(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWires()
		go func() {
			conn, err := w.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn)) // and no answer
			_, _ = io.Copy(io.Discard, conn)
		}()
		c := NewClient("127.0.0.1:1")
		c.http = &http.Client{Transport: &http.Transport{DialContext: w.dial}}
		began := time.Now()
		_, err := c.Run(t.Context(), Prompt{Prompt: "x"}, discard)
		if !errors.Is(err, fault.GatewayLost) || time.Since(began) != silentWithin {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		var v any
		if err := c.Status(t.Context(), &v); !errors.Is(err, fault.GatewayLost) && !errors.Is(err, fault.GatewayUnreachable) {
			t.Errorf("status: %v", err)
		}
		_ = w.Close()
	})
}

// A client that takes nothing holds up nobody for long.
func TestAClientThatTakesNothingIsLetGo(t *testing.T) {
	var ended atomic.Bool
	with(t, Backend{Generate: func(_ context.Context, _ Prompt, emit func(string) error) (Done, error) {
		for {
			if err := emit(strings.Repeat("x", 64<<10)); err != nil {
				ended.Store(true)
				return Done{}, err
			}
		}
	}}, func(t *testing.T, _ *Client, w *wires) {
		conn, err := w.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		body := `{"prompt":"x"}`
		if _, err := io.WriteString(conn, "POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeWithin + time.Second)
		synctest.Wait()
		if !ended.Load() {
			t.Error("it is still written to")
		}
		_ = conn.Close()
	})
}

// A body that does not come is not waited for.
func TestABodyMustCome(t *testing.T) {
	with(t, Backend{}, func(t *testing.T, _ *Client, w *wires) {
		conn, err := w.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		var l Line
		defer func() { _ = resp.Body.Close() }() // it was only read
		if err := json.NewDecoder(resp.Body).Decode(&l); err != nil || l.Fault == nil || l.Fault.Code != fault.GatewayRequestInvalid {
			t.Errorf("%s: %+v, %v", resp.Status, l, err)
		}
		_ = conn.Close()
	})
}

// A page of another site cannot reach the gateway, whatever name it goes by.
func TestOnlyThisMachineMayAsk(t *testing.T) {
	for name, c := range map[string]struct {
		host, origin string
		allowed      bool
	}{
		"by name":      {"localhost:6878", "", true},
		"by address":   {"127.0.0.1:6878", "", true},
		"IPv6":         {"[::1]:6878", "", true},
		"another name": {"evil.example", "", false},
		"a page":       {"localhost:6878", "https://evil.example", false},
		"a LAN host":   {"192.168.0.9:6878", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, Backend{Status: func(context.Context) (any, error) { return "well", nil }}, func(t *testing.T, cl *Client, _ *wires) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cl.base+"/api/status", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = c.host
				if c.origin != "" {
					req.Header.Set("Origin", c.origin)
				}
				resp, err := cl.http.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				if (resp.StatusCode == http.StatusOK) != c.allowed {
					t.Errorf("%s from %s: %s", c.host, c.origin, resp.Status)
				}
			})
		})
	}
}
