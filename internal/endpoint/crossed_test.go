package endpoint_test

import (
	"io"
	"sync"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/id"
)

// crossed makes two nodes whose dials to each other are under way at once,
// and opens a pipe each way.
func crossed(t *testing.T, linger time.Duration) (small, large *node, pipes [2]endpoint.Sender) {
	t.Helper()
	short := func(c *config) { c.Linger = linger }
	small, large = open(t, short), open(t, short)
	if small.ID().Compare(large.ID()) > 0 {
		small, large = large, small
	}
	const delay = 60 * time.Millisecond
	small.Permit(1, map[id.NodeID][]string{large.ID(): {newWire(t, large, delay).addr}})
	large.Permit(1, map[id.NodeID][]string{small.ID(): {newWire(t, small, delay).addr}})
	var wg sync.WaitGroup
	for i, n := range []*node{small, large} {
		peer := []*node{large, small}[i]
		wg.Go(func() {
			s, err := n.OpenUni(within(t, wait), peer.ID(), pipeProtocol)
			if err != nil {
				t.Error(err)
				return
			}
			pipes[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return small, large, pipes
}

func TestOfCrossedDialsTheOneOfTheSmallerIDStays(t *testing.T) {
	small, large, pipes := crossed(t, 300*time.Millisecond)
	one := func(n, peer *node) bool { return len(n.connections(peer.ID(), pipeProtocol)) == 1 }
	eventually(t, "both connections stand", func() bool {
		return len(small.connections(large.ID(), pipeProtocol)) == 2 && len(large.connections(small.ID(), pipeProtocol)) == 2
	})
	// New streams of both go by the one that stays.
	for i, n := range []*node{small, large} {
		peer := []*node{large, small}[i]
		for _, c := range n.connections(peer.ID(), pipeProtocol) {
			if c.Used != (c.Dialled == (n == small)) {
				t.Errorf("the connection dialled here %t is used %t", c.Dialled, c.Used)
			}
		}
	}
	// Neither pipe is cut: the other connection waits for its streams.
	readers := []endpoint.Receiver{receive(t, "a pipe", large.pipes), receive(t, "a pipe", small.pipes)}
	eventually(t, "the linger is over", func() bool {
		return small.connections(large.ID(), pipeProtocol)[0].Age > 900*time.Millisecond
	})
	for i, s := range pipes {
		go func() {
			_, _ = io.WriteString(s, "still here")
			_ = s.CloseWrite()
		}()
		if b, err := io.ReadAll(readers[i]); err != nil || string(b) != "still here" {
			t.Fatalf("%q, %v", b, err)
		}
	}
	small.letGo()
	large.letGo()
	eventually(t, "one connection is left", func() bool { return one(small, large) && one(large, small) })
	if c := small.connections(large.ID(), pipeProtocol)[0]; !c.Dialled || !c.Used {
		t.Errorf("what is left is %+v", c)
	}
	if c := large.connections(small.ID(), pipeProtocol)[0]; c.Dialled || !c.Used {
		t.Errorf("what is left is %+v", c)
	}
}

// Two processes with one key are a mistake that must be seen and break
// nothing: the orchestrator asks each at its own address.
func TestTwoProcessesWithOneKey(t *testing.T) {
	a, one := open(t), open(t)
	two := open(t, func(c *config) { c.Key = one.key })
	for _, n := range []*node{one, two} {
		n.Permit(1, map[id.NodeID][]string{a.ID(): {a.addr()}})
	}
	a.Permit(1, map[id.NodeID][]string{one.ID(): {one.addr(), two.addr()}})
	for _, n := range []*node{one, two, one} {
		if err := a.DialBack(within(t, wait), one.ID(), n.addr()); err != nil {
			t.Fatal(err)
		}
		s, err := a.OpenStreamAt(within(t, wait), one.ID(), echoProtocol, n.addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := converse(s, "which are you?"); err != nil {
			t.Fatal(err)
		}
		if len(n.served) != 1 || len(one.served)+len(two.served) != 1 {
			t.Fatal("the other one was asked")
		}
		<-n.served
	}
	// Who dialled last is who is called; the other one's connection lives on.
	pipe, err := one.OpenUni(within(t, wait), a.ID(), pipeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, "the pipe of one", a.pipes)
	for _, n := range []*node{one, two, one, two} {
		n.mustCall(a, echoProtocol)
	}
	two.mustCall(a, swimProtocol)
	a.mustCall(two, echoProtocol)
	if len(two.served) != 1 || len(one.served) != 0 {
		t.Error("the former process was called")
	}
	if err := pipe.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("the former process's pipe was cut: %v", err)
	}
	// When the later one goes, the former is called again.
	if err := two.Close(within(t, wait)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the former process is called again", func() bool {
		_, err := a.call(one.ID(), echoProtocol, "x")
		return err == nil && len(one.served) > 0
	})
	if err := one.DialSelf(within(t, wait)); err != nil {
		t.Errorf("dialling itself: %v", err)
	}
}

func TestOpenStreamAtLeavesThePoolAlone(t *testing.T) {
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	s, err := a.OpenStreamAt(within(t, wait), b.ID(), echoProtocol, b.addr())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(a.connections(b.ID(), echoProtocol)); n != 2 {
		t.Fatalf("there are %d connections", n)
	}
	for range 3 {
		b.mustCall(a, echoProtocol)
	}
	used := 0
	for _, c := range a.connections(b.ID(), echoProtocol) {
		if c.Used {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d connections are used for new streams", used)
	}
	if answer, err := converse(s, "alone"); err != nil || answer != b.ID().Short()+" alone" {
		t.Fatalf("%q, %v", answer, err)
	}
	eventually(t, "the lone connection ends with its stream", func() bool {
		return len(a.connections(b.ID(), echoProtocol)) == 1 && len(b.connections(a.ID(), echoProtocol)) == 1
	})
	a.mustCall(b, echoProtocol)
}
