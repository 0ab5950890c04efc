package gate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/internal/core/gate"
	"muster/internal/fault"
)

// A zero figure would let a fact count for ever, or a window end at once.
func TestFiguresThatAreNotPositiveAreThoseOfLAN(t *testing.T) {
	for _, c := range []gate.Config{{}, {Window: -1, Nonce: -1, Contact: -1, View: -1, Holder: -1, Rival: -1, Beat: -1, Late: -1}} {
		s := newScript(c).play(t, "0s view", "0s pool 1 a", "0s up a/1", "calm 6s")
		if s.gate.Phase() != gate.Settling {
			t.Fatalf("after 6 s with %+v: %s, %v", c, s.gate.Phase(), s.gate.Blockers(s.now))
		}
		s.play(t, "calm 6.9s", "answer a/1 1")
		if s.gate.Phase() != gate.Ready {
			t.Fatalf("after the window of LAN: %s, %v", s.gate.Phase(), s.gate.Blockers(s.now))
		}
	}
}

// The profiles' windows are the floors that their probes and gossip need.
func TestWindowsAreTheFloorsOfTheirProfiles(t *testing.T) {
	for name, p := range map[string]struct {
		c             gate.Config
		probe, gossip time.Duration
	}{
		"local": {gate.Local(), 200 * time.Millisecond, 50 * time.Millisecond},
		"lan":   {gate.LAN(), time.Second, 200 * time.Millisecond},
		"wan":   {gate.WAN(), 5 * time.Second, 500 * time.Millisecond},
	} {
		if want := 6*p.probe + 4*p.gossip; p.c.Window != want {
			t.Errorf("%s: %s, want %s", name, p.c.Window, want)
		}
	}
}

// An overdue formation names what stood in its way: three blockers, and how
// many there were beside them.
func TestAnOverdueFormationNamesItsBlockers(t *testing.T) {
	for nodes, more := range map[string]string{"a b": "", "a b c": "", "a b c d": " | 1 more"} {
		c := config()
		c.Formation = time.Second
		s := newScript(c).play(t, "0s view", "0s pool 1 "+nodes, "900ms view", "1s tick")
		i := len(s.all) - 1
		for ; i >= 0; i-- {
			if _, ok := s.all[i].(gate.PoolAborted); ok {
				break
			}
		}
		if i < 0 {
			t.Fatalf("%s: no abort: %v", nodes, s.all)
		}
		f := s.all[i].(gate.PoolAborted).Fault
		words := strings.Split(f.Attr("blockers"), " | ")
		if !errors.Is(f, fault.PoolFormationOverdue) || f.Attr("waited") != "1.0 s" {
			t.Errorf("%s: %v", nodes, f)
		}
		if got := strings.Count(f.Attr("blockers"), "not heard of yet"); got != min(3, len(strings.Fields(nodes))) {
			t.Errorf("%s: %q", nodes, words)
		}
		if (more == "") == strings.Contains(f.Attr("blockers"), " more") || !strings.HasSuffix(f.Attr("blockers"), more) {
			t.Errorf("%s: %q, want the end %q", nodes, f.Attr("blockers"), more)
		}
	}
}

// A run's fault names the node and what was known of it.
func TestALossNamesItsNode(t *testing.T) {
	for line, want := range map[string]string{
		"1.1s swim a/1 suspect 1": "is suspected",
		"1.1s swim a/1 alive 7":   "refuted it, by incarnation 7",
		"1.1s swim a/1 left 1":    "has left",
		"1.1s faulted a/1":        "has lost what it needs",
		"1.1s dialled a/1 bad":    "the endpoint a:6878 of",
	} {
		s := newScript(config()).play(t, "0s view", "0s pool 1 a", "0s up a/1", "calm 1s", "1s answer a/1 1", "1s commit r1 epoch=1 round=1 a/1", line)
		found := false
		for _, e := range s.all {
			if f, ok := e.(gate.RunFaulted); ok {
				found = true
				if f.Fault.Node != node("a").Short() || !strings.Contains(f.Fault.Error(), want) || !strings.Contains(f.Fault.Error(), "a (") {
					t.Errorf("%s: %v", line, f.Fault)
				}
			}
		}
		if !found {
			t.Errorf("%s: no fault", line)
		}
	}
}
