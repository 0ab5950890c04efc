package endpoint_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

func TestMain(m *testing.M) {
	if told := os.Getenv(nodeProcess); told != "" {
		serveAsProcess(told)
		return
	}
	goleak.VerifyTestMain(m)
}

// wait is the longest that a test waits for what must come to pass.
const wait = 20 * time.Second

const (
	echoProtocol = "test/echo/1"
	pipeProtocol = "test/pipe/1"
	swimProtocol = "test/swim/1"
	joinProtocol = "test/join/1" // open to strangers
	noneProtocol = "test/none/1" // serves nothing
)

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func idOf(key ed25519.PrivateKey) id.NodeID { return id.NodeIDOf(key.Public().(ed25519.PublicKey)) }

// node is an endpoint with handlers that a test can look into.
type node struct {
	*endpoint.Endpoint
	t      testing.TB
	key    ed25519.PrivateKey
	events *events

	datagrams chan got               // what came by swimProtocol
	pipes     chan endpoint.Receiver // what was opened by pipeProtocol; each is held until its release
	release   chan struct{}          // closed: handlers of pipes return
	served    chan id.NodeID         // who opened a stream of echoProtocol
	ended     chan error             // why handlers' contexts ended
}

type config = endpoint.Config

type got struct {
	peer id.NodeID
	b    []byte
}

// open starts a node on any port of the loopback; change may alter its
// configuration.
func open(t testing.TB, change ...func(*config)) *node {
	t.Helper()
	n := &node{
		t: t, key: newKey(t), events: &events{},
		datagrams: make(chan got, 1024), pipes: make(chan endpoint.Receiver, 1024), release: make(chan struct{}),
		served: make(chan id.NodeID, 4096), ended: make(chan error, 4096),
	}
	cfg := endpoint.Config{Key: n.key, Listen: "127.0.0.1:0", Tell: n.events.tell, Protocols: n.protocols()}
	for _, c := range change {
		c(&cfg)
	}
	n.key = cfg.Key
	e, err := endpoint.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Endpoint = e
	t.Cleanup(func() {
		n.letGo()
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing %s: %v", e.ID().Short(), err)
		}
	})
	return n
}

// letGo lets the handlers of pipes return.
func (n *node) letGo() {
	select {
	case <-n.release:
	default:
		close(n.release)
	}
}

func (n *node) protocols() []endpoint.Protocol {
	return []endpoint.Protocol{
		{Name: echoProtocol, Bidi: n.echo},
		{Name: pipeProtocol, Uni: func(ctx context.Context, _ id.NodeID, r endpoint.Receiver) {
			n.pipes <- r
			select {
			case <-n.release:
			case <-ctx.Done():
				n.ended <- context.Cause(ctx)
			}
		}},
		{Name: swimProtocol, Bidi: n.echo, Datagram: func(peer id.NodeID, b []byte) {
			select {
			case n.datagrams <- got{peer, b}:
			default:
			}
		}},
		{Name: joinProtocol, Open: true, Bidi: n.echo},
		{Name: noneProtocol},
	}
}

// echo answers with its own id and all that it was sent.
func (n *node) echo(_ context.Context, peer id.NodeID, s endpoint.Stream) {
	n.served <- peer
	sent, err := io.ReadAll(io.LimitReader(s, 16<<20))
	if err != nil {
		return
	}
	_, _ = s.Write(append([]byte(n.ID().Short()+" "), sent...))
	_ = s.CloseWrite()
}

func (n *node) addr() string { return n.Addr().String() }

// acquaint permits all nodes to one another, with their addresses.
func acquaint(nodes ...*node) {
	all := map[id.NodeID][]string{}
	for _, n := range nodes {
		all[n.ID()] = append(all[n.ID()], n.addr())
	}
	for _, n := range nodes {
		peers := maps.Clone(all)
		delete(peers, n.ID())
		n.Permit(1, peers)
	}
}

// within is a context for one call.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// call sends text to peer by a protocol that echoes, and returns the answer.
func (n *node) call(peer id.NodeID, protocol, text string) (string, error) {
	s, err := n.OpenStream(within(n.t, wait), peer, protocol)
	if err != nil {
		return "", err
	}
	return converse(s, text)
}

func converse(s endpoint.Stream, text string) (string, error) {
	_ = s.SetDeadline(time.Now().Add(wait))
	defer s.Cancel(0)
	if _, err := io.WriteString(s, text); err != nil {
		return "", err
	}
	if err := s.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(s)
	return string(answer), err
}

// mustCall fails the test unless peer itself answers.
func (n *node) mustCall(peer *node, protocol string) {
	n.t.Helper()
	answer, err := n.call(peer.ID(), protocol, "hello")
	if err != nil || answer != peer.ID().Short()+" hello" {
		n.t.Fatalf("%s: the answer is %q, %v", protocol, answer, err)
	}
}

// connections of n with peer by protocol.
func (n *node) connections(peer id.NodeID, protocol string) []endpoint.PeerState {
	var found []endpoint.PeerState
	for _, p := range n.Peers() {
		if p.Peer == peer && p.Protocol == protocol {
			found = append(found, p)
		}
	}
	return found
}

// wants checks that err is the fault code and that its words name what a
// person must know.
func wants(t testing.TB, err error, code fault.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("want %s, got %v", code, err)
	}
	f := fault.From(err)
	said := f.Error() + " / " + f.Hint()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not name %q", said, w)
		}
	}
	if strings.ContainsAny(said, "{}") {
		t.Errorf("a figure is missing in %q", said)
	}
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(wait):
		t.Fatalf("never came: %s", what)
		panic("unreachable")
	}
}

// events are all that an endpoint told.
type events struct {
	mu   sync.Mutex
	told []event.Event
}

func (e *events) tell(ev event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, ev)
}

// of returns the events of type E.
func of[E event.Event](e *events) []E {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []E
	for _, ev := range e.told {
		if one, ok := ev.(E); ok {
			found = append(found, one)
		}
	}
	return found
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, ev := range e.told {
		fmt.Fprintf(&b, "%s %+v\n", ev.Name(), ev)
	}
	return b.String()
}
