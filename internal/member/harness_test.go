package member_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait is the longest that a test waits for what must come to pass.
const wait = 60 * time.Second

// calm is the local profile for a machine that is shared: a test that wants no
// suspicion must not get one because a processor was busy elsewhere.
func calm() member.Profile {
	p := member.Local()
	p.ProbeTimeout, p.ProbeInterval = 2*time.Second, 4*time.Second
	p.StreamTimeout = 20 * time.Second
	return p
}

// node is a member on an endpoint of its own.
type node struct {
	*member.Member
	t        testing.TB
	key      ed25519.PrivateKey
	boot     id.BootID
	endpoint *endpoint.Endpoint
	profile  member.Profile
	pool     string
	cut      atomic.Bool // nothing passes: as good as a stopped process or a pulled cable
	stop     func()      // once

	mu     sync.Mutex
	onFact func(member.Fact) // nil, or called outside mu
	facts  []member.Fact
	told   []event.Event
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newBoot(t testing.TB) id.BootID {
	t.Helper()
	b, err := id.NewBootID(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open makes a node that has not joined; change may alter it before it starts.
func open(t testing.TB, change ...func(*node)) *node {
	t.Helper()
	n := &node{t: t, key: newKey(t), boot: newBoot(t), profile: calm(), pool: "tales"}
	for _, c := range change {
		c(n)
	}
	var err error
	n.Member, err = member.New(member.Config{
		Self: id.NodeIDOf(n.key.Public().(ed25519.PublicKey)), Boot: n.boot, Pool: n.pool, Profile: n.profile,
		Facts: n.hear, Tell: n.tell,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.endpoint, err = endpoint.Open(endpoint.Config{Key: n.key, Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{{
		Name: member.Protocol,
		Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			if n.cut.Load() {
				s.Cancel(1)
				return
			}
			n.Serve(ctx, peer, s)
		},
		Datagram: func(peer id.NodeID, b []byte) {
			if !n.cut.Load() {
				n.Datagram(peer, b)
			}
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	whole := member.Over(n.endpoint)
	if err := n.Start(member.Network{
		Open: func(ctx context.Context, peer id.NodeID) (member.Stream, error) {
			if n.cut.Load() {
				return nil, errors.New("cut")
			}
			return whole.Open(ctx, peer)
		},
		Send: func(peer id.NodeID, b []byte) error {
			if n.cut.Load() {
				return nil
			}
			return whole.Send(peer, b)
		},
	}); err != nil {
		t.Fatal(err)
	}
	n.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("closing the member %s: %v", n.ID().Short(), err)
		}
		if err := n.endpoint.Close(ctx); err != nil {
			t.Errorf("closing the endpoint %s: %v", n.ID().Short(), err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

func (n *node) ID() id.NodeID { return n.endpoint.ID() }

func (n *node) hear(f member.Fact) {
	if v := n.View(); v.Sequence < f.Sequence || v.Read.Before(f.At) {
		n.t.Errorf("the view of sequence %d is behind fact %d", v.Sequence, f.Sequence)
	}
	n.mu.Lock()
	n.facts = append(n.facts, f)
	then := n.onFact
	n.mu.Unlock()
	if then != nil {
		then(f)
	}
}

func (n *node) tell(e event.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, e)
}

// of returns the facts heard about one node.
func (n *node) of(about *node) []member.Fact {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.facts), func(f member.Fact) bool { return f.Node != about.ID() })
}

// sees is the state in which n has another node's present boot.
func (n *node) sees(other *node) member.State {
	r, _ := n.View().Row(other.ID())
	if r.Boot != other.boot {
		return member.Unknown
	}
	return r.State
}

// acquaint permits all nodes to one another, with their addresses.
func acquaint(nodes ...*node) {
	all := map[id.NodeID][]string{}
	var ids []id.NodeID
	for _, n := range nodes {
		all[n.ID()] = []string{n.endpoint.Addr().String()}
		ids = append(ids, n.ID())
	}
	for _, n := range nodes {
		n.endpoint.Permit(1, all)
		n.SetPeers(ids)
	}
}

// pool opens nodes that all see each other alive.
func pool(t testing.TB, count int, change ...func(*node)) []*node {
	t.Helper()
	var nodes []*node
	for range count {
		nodes = append(nodes, open(t, change...))
	}
	acquaint(nodes...)
	for _, n := range nodes[1:] {
		n.joins(nodes[0])
	}
	converge(t, nodes...)
	return nodes
}

func (n *node) joins(seeds ...*node) {
	n.t.Helper()
	var ids []id.NodeID
	for _, s := range seeds {
		ids = append(ids, s.ID())
	}
	if err := n.Join(within(n.t, wait), ids); err != nil {
		n.t.Fatal(err)
	}
}

// converge waits until all see all alive.
func converge(t testing.TB, nodes ...*node) {
	t.Helper()
	for _, a := range nodes {
		for _, b := range nodes {
			a.awaits(b, member.Alive)
		}
	}
}

// awaits waits until n sees the other's present boot in one of the states.
func (n *node) awaits(other *node, states ...member.State) {
	n.t.Helper()
	eventually(n.t, func() string {
		return fmt.Sprintf("%s sees %s %v; facts:\n%s", n.ID().Short(), other.ID().Short(), states, list(n.of(other)))
	}, func() bool { return slices.Contains(states, n.sees(other)) })
}

func list(facts []member.Fact) string {
	var b strings.Builder
	for _, f := range facts {
		fmt.Fprintf(&b, "%d %s/%s %s -> %s incarnation %d epoch %d\n", f.Sequence, f.Node.Short(), f.Boot.Short(), f.Former, f.State, f.Incarnation, f.Epoch)
	}
	return b.String()
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok holds.
func eventually(t testing.TB, what func() string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what())
		}
		time.Sleep(5 * time.Millisecond)
	}
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
