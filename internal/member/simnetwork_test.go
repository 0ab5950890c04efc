package member_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/testkit"
)

// These tests run in a bubble of virtual time: minutes pass at once, and a busy
// machine makes nobody suspect.

// simNetwork joins members in memory.
type simNetwork struct {
	t       testing.TB
	mu      sync.Mutex
	members map[id.NodeID]*simNode
	cut     func(from, to id.NodeID) bool // nothing passes; nil: all does
	loss    float64                       // of packets
	chance  *mathrand.Rand
}

type simNode struct {
	*member.Member
	self   id.NodeID
	boot   id.BootID
	ctx    context.Context // ends with the process
	kill   context.CancelFunc
	mu     sync.Mutex
	facts  []member.Fact
	onRead func()
}

func newSim(t testing.TB, seed uint64) *simNetwork {
	return &simNetwork{t: t, members: map[id.NodeID]*simNode{}, chance: mathrand.New(mathrand.NewPCG(seed, seed))}
}

func (s *simNetwork) passes(from, to id.NodeID, packet bool) (*simNode, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.members[to]
	if n == nil || s.cut != nil && (s.cut(from, to) || s.cut(to, from)) {
		return nil, false
	}
	return n, !packet || s.chance.Float64() >= s.loss
}

func (s *simNetwork) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// open starts a process of node number i.
func (s *simNetwork) open(i int, p member.Profile) *simNode {
	s.t.Helper()
	boot, err := id.NewBootID(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	n := &simNode{self: id.NodeID{byte(i), byte(i >> 8), 1}, boot: boot}
	n.ctx, n.kill = context.WithCancel(context.Background())
	n.Member, err = member.New(member.Config{
		Self: n.self, Boot: n.boot, Pool: "tales", Profile: p,
		Facts: func(f member.Fact) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.facts = append(n.facts, f)
		},
		Read: func(time.Time) {
			n.mu.Lock()
			then := n.onRead
			n.mu.Unlock()
			if then != nil {
				then()
			}
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	err = n.Start(member.Network{
		Open: func(_ context.Context, peer id.NodeID) (member.Stream, error) {
			to, ok := s.passes(n.self, peer, false)
			if !ok {
				return nil, errors.New("not reached")
			}
			near, far := pipe()
			go func() {
				to.Serve(to.ctx, n.self, far)
				far.Cancel(0)
			}()
			return near, nil
		},
		Send: func(peer id.NodeID, b []byte) error {
			to, ok := s.passes(n.self, peer, true)
			if !ok {
				return errors.New("not reached")
			}
			to.Datagram(n.self, bytes.Clone(b))
			return nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.set(func() { s.members[n.self] = n })
	return n
}

// stop ends a process without a word.
func (s *simNetwork) stop(n *simNode) {
	s.set(func() {
		if s.members[n.self] == n {
			delete(s.members, n.self)
		}
	})
	n.kill()
	if err := n.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// pool starts count members that see each other alive.
func (s *simNetwork) pool(count int, p member.Profile) []*simNode {
	s.t.Helper()
	var nodes []*simNode
	var ids []id.NodeID
	for i := range count {
		nodes = append(nodes, s.open(i, p))
		ids = append(ids, nodes[i].self)
	}
	for _, n := range nodes {
		n.SetPeers(ids)
		if err := n.Join(context.Background(), ids[:1]); err != nil {
			s.t.Fatal(err)
		}
	}
	s.await("all alive", time.Minute, func() bool { return allSee(nodes, nodes, member.Alive) })
	return nodes
}

// await lets virtual time pass until ok holds.
func (s *simNetwork) await(what string, most time.Duration, ok func() bool) {
	s.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most {
			for _, n := range s.members {
				s.t.Logf("%s:\n%s", n.self.Short(), list(n.heard(nil)))
			}
			s.t.Fatalf("not within %s: %s", most, what)
		}
	}
}

func (n *simNode) sees(other *simNode) member.State {
	r, _ := n.View().Row(other.self)
	if r.Boot != other.boot {
		return member.Unknown
	}
	return r.State
}

// heard is what n was told about another node, or all of it.
func (n *simNode) heard(about *simNode) (facts []member.Fact) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.facts {
		if about == nil || f.Node == about.self {
			facts = append(facts, f)
		}
	}
	return facts
}

func allSee(watching, watched []*simNode, s member.State) bool {
	for _, a := range watching {
		for _, b := range watched {
			if a.sees(b) != s {
				return false
			}
		}
	}
	return true
}

// pipe is a pair of streams in memory.
func pipe() (near, far *simStream) {
	there, out := net.Pipe()
	back, in := net.Pipe()
	return &simStream{in, out}, &simStream{there, back}
}

type simStream struct{ in, out net.Conn }

func (s *simStream) Read(b []byte) (int, error)         { return s.in.Read(b) }
func (s *simStream) Write(b []byte) (int, error)        { return s.out.Write(b) }
func (s *simStream) Cancel(uint32)                      { _, _ = s.in.Close(), s.out.Close() }
func (s *simStream) SetReadDeadline(t time.Time) error  { return s.in.SetReadDeadline(t) }
func (s *simStream) SetWriteDeadline(t time.Time) error { return s.out.SetWriteDeadline(t) }
func (s *simStream) SetDeadline(t time.Time) error {
	return errors.Join(s.in.SetReadDeadline(t), s.out.SetWriteDeadline(t))
}

// sim runs f in a bubble; the members that are still there end with it.
func sim(t *testing.T, f func(s *simNetwork)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("MUSTER_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("MUSTER_SEED=%d", seed)
	testkit.Bubble(t, func(t *testing.T) {
		s := newSim(t, seed)
		// Time stands still once this function has returned, and probes of the
		// library wait for answers until then.
		defer time.Sleep(10 * time.Minute)
		defer func() {
			for _, n := range s.members {
				defer s.stop(n)
			}
		}()
		f(s)
	})
}
