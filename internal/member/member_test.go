package member_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
)

// quick probes as often as the local profile, and leaves a suspect as much time
// as a shared machine may need to refute.
func quick(n *node) {
	n.profile = member.Local()
	n.profile.Suspicion = 100
	n.profile.StreamTimeout = 20 * time.Second
}

// hasty declares the silent dead as soon as the local profile does.
func hasty(n *node) { n.profile = member.Local() }

func with(n *node, about *node, state member.State) bool {
	return slices.ContainsFunc(n.of(about), func(f member.Fact) bool { return f.Boot == about.boot && f.State == state })
}

func TestNodesSeeEachOtherAlive(t *testing.T) {
	nodes := pool(t, 3)
	for _, a := range nodes {
		for _, b := range nodes {
			r, ok := a.View().Row(b.ID())
			if !ok || r.Boot != b.boot || r.Incarnation == 0 || r.Since.IsZero() {
				t.Errorf("%s has %+v of %s", a.ID().Short(), r, b.ID().Short())
			}
			facts := a.of(b)
			if len(facts) == 0 || facts[0].State != member.Alive || facts[0].Former != member.Unknown || facts[0].At.IsZero() {
				t.Errorf("%s has heard of %s:\n%s", a.ID().Short(), b.ID().Short(), list(facts))
			}
		}
		if h := a.Health(); h.Bad || h.Fault != nil || h.Read.IsZero() || h.Closed {
			t.Errorf("its health is %+v", h)
		}
	}
}

func TestASilentNodeIsSuspectBeforeItIsDead(t *testing.T) {
	nodes := pool(t, 3, hasty)
	silent := nodes[2]
	silent.cut.Store(true) // as a stopped process is
	for _, n := range nodes[:2] {
		n.awaits(silent, member.Dead)
		facts := n.of(silent)
		last := facts[len(facts)-1]
		if last.State != member.Dead || last.Former != member.Suspect {
			t.Errorf("%s heard:\n%s", n.ID().Short(), list(facts))
		}
	}
	// What the operator's journal says of it.
	nodes[0].mu.Lock()
	defer nodes[0].mu.Unlock()
	if !slices.ContainsFunc(nodes[0].told, func(e event.Event) bool {
		c, ok := e.(event.MemberStateChanged)
		return ok && c.Node == silent.ID() && c.Boot == silent.boot && c.State == "suspect" && c.Former == "alive"
	}) {
		t.Errorf("told %+v", nodes[0].told)
	}
}

func TestASuspectRefutes(t *testing.T) {
	nodes := pool(t, 3, quick)
	doubted, others := nodes[2], nodes[:2]
	doubted.cut.Store(true)
	for _, n := range others {
		n.awaits(doubted, member.Suspect)
	}
	suspected, _ := others[0].View().Row(doubted.ID())
	doubted.cut.Store(false)
	for _, n := range others {
		n.awaits(doubted, member.Alive)
		if with(n, doubted, member.Dead) {
			t.Errorf("it was given up:\n%s", list(n.of(doubted)))
		}
	}
	if r, _ := others[0].View().Row(doubted.ID()); r.Incarnation <= suspected.Incarnation {
		t.Errorf("refuted at incarnation %d, suspected at %d", r.Incarnation, suspected.Incarnation)
	}
}

func TestANodeThatLeavesHasLeft(t *testing.T) {
	nodes := pool(t, 3)
	leaver := nodes[2]
	if err := leaver.Leave(within(t, wait)); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[:2] {
		n.awaits(leaver, member.Left)
	}
	leaver.stop()
	for _, n := range nodes[:2] {
		if with(n, leaver, member.Suspect) || with(n, leaver, member.Dead) {
			t.Errorf("it is mourned:\n%s", list(n.of(leaver)))
		}
		if n.sees(leaver) != member.Left {
			t.Errorf("it is %s", n.sees(leaver))
		}
	}
}

func TestAKilledNodeDies(t *testing.T) {
	nodes := pool(t, 3, hasty)
	nodes[2].stop() // without a word
	for _, n := range nodes[:2] {
		n.awaits(nodes[2], member.Dead)
	}
}

// A new process has the id before the old one is missed, at another port.
func TestARestartShowsAsAnotherBoot(t *testing.T) {
	nodes := pool(t, 3)
	old, others := nodes[2], nodes[:2]
	old.stop()
	again := open(t, func(n *node) { n.key = old.key })
	acquaint(append(slices.Clone(others), again)...)
	again.joins(others...)
	converge(t, append(slices.Clone(others), again)...)
	for _, n := range others {
		facts := n.of(old)
		last := facts[len(facts)-1]
		if last.Boot != again.boot || last.Incarnation == 0 {
			t.Errorf("%s heard:\n%s", n.ID().Short(), list(facts))
		}
		if with(n, old, member.Dead) || with(n, old, member.Left) {
			t.Errorf("the old boot was missed first:\n%s", list(facts))
		}
	}
}

func TestTwoProcessesWithOneIDShowAsTwoBoots(t *testing.T) {
	nodes := pool(t, 2)
	observer, one := nodes[0], nodes[1]
	other := open(t, func(n *node) { n.key = one.key })
	other.endpoint.Permit(1, map[id.NodeID][]string{observer.ID(): {observer.endpoint.Addr().String()}})
	other.SetPeers([]id.NodeID{observer.ID()})
	other.joins(observer)
	eventually(t, func() string { return "both boots are seen:\n" + list(observer.of(one)) }, func() bool {
		return with(observer, one, member.Alive) && with(observer, other, member.Alive)
	})
}

func TestAnEpochIsSeenWithoutADoubt(t *testing.T) {
	nodes := pool(t, 3)
	for epoch := uint64(2); epoch < 5; epoch++ {
		if err := nodes[0].SetEpoch(epoch); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			eventually(t, func() string { return fmt.Sprintf("epoch %d", epoch) }, func() bool {
				r, _ := n.View().Row(nodes[0].ID())
				return r.Epoch == epoch
			})
		}
	}
	for _, n := range nodes {
		facts := n.of(nodes[0])
		if first, last := facts[0], facts[len(facts)-1]; last.State != member.Alive || last.Incarnation != first.Incarnation {
			t.Errorf("%s heard:\n%s", n.ID().Short(), list(facts))
		}
	}
}

func TestOnlyPeersAreSeen(t *testing.T) {
	nodes := pool(t, 2)
	third := open(t)
	acquaint(nodes[0], nodes[1], third)
	nodes[1].SetPeers([]id.NodeID{nodes[0].ID()}) // it has not been told of the third yet
	third.joins(nodes[0])
	nodes[0].awaits(third, member.Alive)
	third.awaits(nodes[1], member.Alive)
	if _, ok := nodes[1].View().Row(third.ID()); ok || len(nodes[1].of(third)) > 0 {
		t.Errorf("who is no peer is seen:\n%s", list(nodes[1].of(third)))
	}
	nodes[1].SetPeers([]id.NodeID{nodes[0].ID(), third.ID()})
	nodes[1].awaits(third, member.Alive)
	nodes[1].SetPeers([]id.NodeID{nodes[0].ID()})
	if _, ok := nodes[1].View().Row(third.ID()); ok {
		t.Error("who is no longer a peer has a row")
	}
}

func TestPoolsDoNotMix(t *testing.T) {
	a := open(t)
	b := open(t, func(n *node) { n.pool = "novels" })
	acquaint(a, b)
	err := b.Join(within(t, wait), []id.NodeID{a.ID()})
	wants(t, err, fault.MemberJoinFailed, "novels", a.ID().Short())
	if a.sees(b) != member.Unknown || b.sees(a) != member.Unknown {
		t.Error("they see each other")
	}
}

func TestTheFirstMemberJoinsNobody(t *testing.T) {
	n := open(t)
	for _, seeds := range [][]id.NodeID{nil, {n.ID()}} {
		if err := n.Join(within(t, wait), seeds); err != nil {
			t.Error(err)
		}
	}
	n.awaits(n, member.Alive)
}

func TestSeedsThatDoNotAnswer(t *testing.T) {
	n, gone, stranger := open(t), open(t), open(t)
	gone.stop()
	n.endpoint.Permit(1, map[id.NodeID][]string{gone.ID(): {gone.endpoint.Addr().String()}})
	err := n.Join(within(t, wait), []id.NodeID{gone.ID()})
	wants(t, err, fault.MemberJoinFailed, gone.ID().Short(), "pool")
	if !errors.Is(err, fault.EndpointPeerUnreachable) {
		t.Errorf("the cause is lost: %v", err)
	}
	err = n.Join(within(t, wait), []id.NodeID{stranger.ID()})
	wants(t, err, fault.MemberJoinFailed, stranger.ID().Short())
	if !errors.Is(err, fault.EndpointPeerUnknown) {
		t.Errorf("the cause is lost: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wants(t, n.Join(ctx, []id.NodeID{gone.ID()}), fault.MemberJoinOverdue, gone.ID().Short())
}

// One seed of several suffices, and one that comes late is found.
func TestASeedIsTriedAgain(t *testing.T) {
	early, late := open(t, hasty), open(t, hasty)
	early.endpoint.Permit(1, map[id.NodeID][]string{late.ID(): {late.endpoint.Addr().String()}})
	late.cut.Store(true)
	if err := early.Join(within(t, wait), []id.NodeID{late.ID()}); err == nil {
		t.Fatal("a seed that is cut off has answered")
	}
	acquaint(early, late)
	late.cut.Store(false)
	converge(t, early, late)
}

// While the callback is stuck the member lives on, and then tells all.
func TestASlowListenerDelaysNobody(t *testing.T) {
	nodes := pool(t, 2)
	slow := nodes[0]
	stuck, release := make(chan struct{}), make(chan struct{})
	slow.mu.Lock()
	slow.onFact = func(f member.Fact) {
		if f.Epoch == 9 {
			close(stuck)
			<-release
		}
	}
	slow.mu.Unlock()
	if err := nodes[1].SetEpoch(9); err != nil {
		t.Fatal(err)
	}
	<-stuck
	third := open(t)
	acquaint(nodes[0], nodes[1], third)
	third.joins(slow)
	nodes[1].awaits(third, member.Alive)
	third.awaits(slow, member.Alive)
	if len(slow.of(third)) > 0 {
		t.Error("a fact came past the one that is stuck")
	}
	close(release)
	slow.awaits(third, member.Alive)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	for i, f := range slow.facts {
		if f.Sequence != uint64(i+1) {
			t.Errorf("fact %d has sequence %d", i, f.Sequence)
		}
	}
}

// A peer that opens streams and sends half a message, or none that is one.
func TestHalfAndBrokenStreams(t *testing.T) {
	nodes := pool(t, 2, func(n *node) { n.profile.StreamTimeout = time.Hour })
	for _, sent := range []string{"\xf4", "\xf4\x05tales\x06", "\xf4\x05tales\x06\x83", "nonsense", "\xf4\x05other\x00"} {
		s, err := nodes[1].endpoint.OpenStream(within(t, wait), nodes[0].ID(), member.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(s, sent); err != nil {
			t.Fatal(err)
		}
	}
	if err := nodes[1].endpoint.SendDatagram(nodes[0].ID(), member.Protocol, []byte("\xf4\x05tales\x07\xff")); err != nil {
		t.Fatal(err)
	}
	third := open(t)
	acquaint(nodes[0], nodes[1], third)
	third.joins(nodes[0])
	converge(t, nodes[0], nodes[1], third)
	nodes[0].stop() // while the halves stand
}
