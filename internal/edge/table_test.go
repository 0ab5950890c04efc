package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
)

func (c Config) expected() Expected {
	return Expected{Edge: c.Edge, Peer: c.Peer, Run: c.Run, Attempt: c.Attempt}
}

// served is one stream that a table serves.
type served struct {
	link *link
	done chan struct{} // Serve has returned
}

func arrive(ctx context.Context, t *Table, peer id.NodeID, p Preamble) served {
	s := served{newLink(1 << 20), make(chan struct{})}
	_, _ = s.link.sender().Write(p.Append(nil))
	go func() {
		defer close(s.done)
		t.Serve(ctx, peer, s.link.receiver())
	}()
	return s
}

func (s served) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// tableTest runs a test with a table on a clock of its own, and wants it to be
// empty afterwards.
func tableTest(t *testing.T, cfg TableConfig, f func(t *testing.T, table *Table, refused func() []*fault.Fault)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []*fault.Fault
		cfg.Tell = func(f *fault.Fault) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, f)
		}
		refused := func() []*fault.Fault {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
		table := NewTable(cfg)
		f(t, table, refused)
		synctest.Wait()
		if table.Len() != 0 || len(table.early) != 0 {
			t.Errorf("%d edges and %d early streams are left", table.Len(), len(table.early))
		}
		for _, f := range refused() {
			if strings.Contains(f.Error()+f.Hint(), "{") || f.Node == "" {
				t.Errorf("it says %v; %s", f, f.Hint())
			}
		}
	})
}

func TestAStreamFindsWhoExpectsIt(t *testing.T) {
	for _, early := range []time.Duration{0, 4 * time.Second} {
		tableTest(t, TableConfig{}, func(t *testing.T, table *Table, _ func() []*fault.Fault) {
			c := newConfig()
			var s served
			if early > 0 {
				s = arrive(t.Context(), table, c.Peer, c.preamble())
				time.Sleep(early)
			}
			a := must(table.Expect(t.Context(), c.expected()))
			if early == 0 {
				s = arrive(t.Context(), table, c.Peer, c.preamble())
			}
			r := must(a.Wait(t.Context()))
			if r != Receiver(s.link.receiver()) {
				t.Error("it is another stream")
			}
			time.Sleep(time.Hour)
			if s.over() {
				t.Error("Serve has returned while the stream was read")
			}
			a.Close()
			a.Close()
			<-s.done
		})
	}
}

func TestOtherStreamsAreRefused(t *testing.T) {
	c := newConfig()
	otherRun, otherEdge := c, c
	otherRun.Run = must(id.NewRunID(rand.Reader))
	otherEdge.Edge = must(id.NewEdgeID(rand.Reader))
	next := c
	next.Attempt++
	for name, x := range map[string]struct {
		peer id.NodeID
		said Config
	}{
		"an unknown edge":  {c.Peer, otherEdge},
		"another node":     {peerID(2), c},
		"another run":      {c.Peer, otherRun},
		"a later attempt":  {c.Peer, next},
		"a second of them": {c.Peer, c},
	} {
		tableTest(t, TableConfig{}, func(t *testing.T, table *Table, refused func() []*fault.Fault) {
			a := must(table.Expect(t.Context(), c.expected()))
			var first served
			if name == "a second of them" {
				first = arrive(t.Context(), table, c.Peer, c.preamble())
				synctest.Wait()
			}
			start := time.Now()
			s := arrive(t.Context(), table, x.peer, x.said.preamble())
			<-s.done
			if code := s.link.code(receiving); code != CodeRefused {
				t.Errorf("%s: cancelled with %d", name, code)
			}
			if len(refused()) != 1 || !errors.Is(refused()[0], fault.EdgeStreamUnexpected) {
				t.Errorf("%s: told %v", name, refused())
			}
			if d := time.Since(start); d > 0 != (name == "an unknown edge") {
				t.Errorf("%s: after %v", name, d)
			}
			if first.link == nil {
				first = arrive(t.Context(), table, c.Peer, c.preamble())
			}
			if r, err := a.Wait(t.Context()); err != nil || r != Receiver(first.link.receiver()) {
				t.Errorf("%s: the right one gets %v", name, err)
			}
			a.Close()
			<-first.done
		})
	}
}

func TestAStreamThatSaysNothingIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		said []byte
		want fault.Code
	}{
		"nothing":   {nil, fault.EdgePreambleOverdue},
		"half":      {newConfig().preamble().Append(nil)[:20], fault.EdgePreambleOverdue},
		"something": {make([]byte, 48), fault.EdgePreambleInvalid},
	} {
		tableTest(t, TableConfig{}, func(t *testing.T, table *Table, refused func() []*fault.Fault) {
			l := newLink(100)
			_, _ = l.sender().Write(c.said)
			start := time.Now()
			table.Serve(t.Context(), peerID(3), l.receiver())
			if len(refused()) != 1 || !errors.Is(refused()[0], c.want) || refused()[0].Node != peerID(3).Short() {
				t.Errorf("%s: told %v", name, refused())
			}
			if d := time.Since(start); d > 5*time.Second || l.code(receiving) != CodeRefused {
				t.Errorf("%s: after %v with %d", name, d, l.code(receiving))
			}
		})
	}
}

func TestEarlyStreamsOfAPeerAreBounded(t *testing.T) {
	tableTest(t, TableConfig{PerPeer: 2}, func(t *testing.T, table *Table, refused func() []*fault.Fault) {
		for range 5 {
			c := newConfig()
			arrive(t.Context(), table, c.Peer, c.preamble())
		}
		other := newConfig()
		s := arrive(t.Context(), table, peerID(2), other.preamble())
		synctest.Wait()
		if len(refused()) != 3 || s.over() {
			t.Errorf("%d were refused at once; another peer's was: %v", len(refused()), s.over())
		}
		time.Sleep(6 * time.Second)
		if len(refused()) != 6 {
			t.Errorf("%d were refused in the end", len(refused()))
		}
	})
}

func TestAnExpectationEndsWithItsContext(t *testing.T) {
	tableTest(t, TableConfig{Most: 1}, func(t *testing.T, table *Table, _ func() []*fault.Fault) {
		c, other := newConfig(), newConfig()
		ctx, stop := context.WithCancel(t.Context())
		a := must(table.Expect(ctx, c.expected()))
		_, err := table.Expect(t.Context(), c.expected())
		wantFault(t, err, fault.EdgeArrivalDoubled)
		_, err = table.Expect(t.Context(), other.expected())
		wantFault(t, err, fault.EdgeTableFilled)

		within, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = a.Wait(within)
		if f := wantFault(t, err, fault.EdgeStreamOverdue); f.Attr("waited") != "3s" || f.Node != c.Peer.Short() {
			t.Errorf("it says %v", f)
		}
		gone, give := context.WithCancel(t.Context())
		give()
		_, err = a.Wait(gone)
		wantFault(t, err, fault.RunInterrupted)

		s := arrive(t.Context(), table, c.Peer, c.preamble())
		synctest.Wait()
		stop()
		<-s.done
		_, err = a.Wait(t.Context())
		wantFault(t, err, fault.RunInterrupted)

		a = must(table.Expect(t.Context(), other.expected()))
		a.Close()
		_, err = a.Wait(t.Context())
		wantFault(t, err, fault.RunInterrupted)
	})
}

func TestServeEndsWithTheConnection(t *testing.T) {
	tableTest(t, TableConfig{}, func(t *testing.T, table *Table, _ func() []*fault.Fault) {
		c, early := newConfig(), newConfig()
		a := must(table.Expect(t.Context(), c.expected()))
		ctx, stop := context.WithCancel(t.Context())
		taken := arrive(ctx, table, c.Peer, c.preamble())
		waiting := arrive(ctx, table, c.Peer, early.preamble())
		synctest.Wait()
		stop()
		<-taken.done
		<-waiting.done
		a.Close()
	})
}
