package gate_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/gate"
)

// Ready, lost, committed, faulted: always what the contract says over the whole
// log; blockers are empty if and only if the pool is ready; a run faults once.
func TestTheGateAgreesWithTheContractOverTheWholeLog(t *testing.T) {
	reached := map[gate.Phase]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := watch(t, anyConfig(t))
		w.reached = func(p gate.Phase) { reached[p]++ }
		w.step(anyPool(t, 1))
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			w.act(t)
		}
		w.check()
	})
	for _, p := range gate.Phases() {
		if reached[p] == 0 {
			t.Errorf("no sequence came to %s: %v", p, reached)
		}
	}
}

// The same log gives the same effects: nothing but the log decides.
func TestAReplayGivesTheSameVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		w := watch(t, c)
		w.step(anyPool(t, 1))
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			w.act(t)
		}
		again := newScript(c)
		for _, s := range w.log {
			again.now = s.at
			again.step(s.e)
		}
		if !reflect.DeepEqual(again.all, w.all) {
			t.Fatalf("a replay gives\n%s\ninstead of\n%s", again.out.String(), w.out.String())
		}
	})
}

// Facts of different nodes inside one instant may come in any order, and twice.
func TestOrderInsideAnInstantDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		c.LossPolicy = gate.Wait
		w := watch(t, c)
		w.step(anyPool(t, 1))
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			w.act(t)
		}
		at := w.now + rapid.SampledFrom(steps).Draw(t, "later")
		facts := instant(t)
		shuffled := rapid.Permutation(facts).Draw(t, "order")
		shuffled = append(shuffled, shuffled[rapid.IntRange(0, len(shuffled)-1).Draw(t, "twice")])
		one, other := replay(c, w.log, facts, at), replay(c, w.log, shuffled, at)
		if a, b := fmt.Sprint(one.Phase(), one.Blockers(at)), fmt.Sprint(other.Phase(), other.Blockers(at)); a != b {
			t.Fatalf("%v\ngives %s\nbut another order gives %s", facts, a, b)
		}
	})
}

// instant draws one fact of each of some nodes.
func instant(t *rapid.T) []gate.Event {
	var facts []gate.Event
	for _, n := range names {
		b := boot(n, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "boot"))
		switch rapid.IntRange(0, 5).Draw(t, "fact") {
		case 0:
			facts = append(facts, gate.SwimSeen{Node: node(n), Boot: b, State: gate.SwimState(rapid.IntRange(0, 4).Draw(t, "state")), Incarnation: 3})
		case 1:
			facts = append(facts, gate.NodeAvailable{Node: node(n), Boot: b, Attempt: 3})
		case 2:
			facts = append(facts, gate.NodeFaulted{Node: node(n), Boot: b, Attempt: 3})
		case 3:
			facts = append(facts, gate.ContactMade{Node: node(n), Boot: b})
		case 4:
			facts = append(facts, gate.NodeKnown{Node: node(n), Boot: b, Endpoint: "elsewhere:1"})
		default:
			facts = append(facts, gate.EndpointDialled{Node: node(n), Boot: b, Endpoint: n + ":6878"})
		}
	}
	return facts
}

func replay(c gate.Config, log []said, more []gate.Event, at time.Duration) *gate.Gate {
	g := gate.New(c)
	for _, s := range log {
		g.Step(s.e, s.at)
	}
	for _, e := range more {
		g.Step(e, at)
	}
	return g
}

// Whatever has been: once all is well and nothing changes, the pool is ready
// within the window, the deadline of the closing question and one tick.
func TestReadinessComesInTimeOnceAllIsWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		c.Formation = 0
		w := watch(t, c)
		w.step(anyPool(t, 1))
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			w.act(t)
		}
		w.step(gate.RunEnded{Run: w.gate.Run()})
		w.now += c.Window + c.Late // an orchestrator that was starved is well again
		w.step(gate.HealthSeen{})
		w.calm(w.now + c.Window + c.Holder)
		w.step(gate.PoolDefined{Epoch: w.gate.Epoch() + 1})
		w.step(gate.PoolDefined{Epoch: w.gate.Epoch() + 1, Members: []gate.Member{{ID: node("a")}, {ID: node("b")}}})
		w.up = nil
		w.bringUp("a/7")
		w.bringUp("b/7")
		limit := w.now + c.Window + c.Nonce + c.Beat
		for w.now < limit && w.gate.Phase() != gate.Ready {
			w.calm(w.now + beat)
			w.answerAll()
		}
		if w.gate.Phase() != gate.Ready {
			t.Fatalf("not ready %s after all is well: %v", c.Window+c.Nonce+c.Beat, w.gate.Blockers(w.now))
		}
	})
}

// 28. Nodes that are no candidates change nothing, however many they are.
func TestChurnOutsideThePoolChangesNothing(t *testing.T) {
	s := newScript(config()).play(t, "0s view", "0s pool 1 a", "0s up a/1", "calm 500ms")
	before := fmt.Sprint(s.gate.Blockers(s.now))
	for i := range 10_000 {
		other := fmt.Sprint("n", i)
		for _, e := range []gate.Event{
			gate.NodeKnown{Node: node(other), Boot: boot(other, "1"), Endpoint: "x:1"},
			gate.SwimSeen{Node: node(other), Boot: boot(other, "1"), State: gate.SwimSuspect, Incarnation: uint32(i)},
			gate.NodeFaulted{Node: node(other), Boot: boot(other, "1"), Attempt: 1},
			gate.NonceAnswered{Node: node(other), Boot: boot(other, "1"), Round: 1},
		} {
			if effects := s.gate.Step(e, s.now); len(effects) != 0 {
				t.Fatalf("%T of a stranger gave %v", e, effects)
			}
		}
	}
	if after := fmt.Sprint(s.gate.Blockers(s.now)); after != before {
		t.Errorf("blockers were %s, are %s", before, after)
	}
	s.play(t, "calm 1s")
	if s.gate.Phase() != gate.Asking {
		t.Errorf("the window was disturbed: %s", s.gate.Phase())
	}
}

// 29. A storm of refutations keeps the window open and asks for nothing.
func TestARefutationStormNeverComesToReady(t *testing.T) {
	s := newScript(config()).play(t, "0s view", "0s pool 1 a b", "0s up a/1 b/1")
	for i := range 200 {
		s.play(t, fmt.Sprintf("+50ms swim a/1 suspect %d", i+1), fmt.Sprintf("+1ms swim a/1 alive %d", i+2), "+1ms view", "contact a/1", "contact b/1", "tick")
	}
	if i := slices.IndexFunc(s.all, func(e gate.Effect) bool { _, asks := e.(gate.AskNonce); return asks }); i >= 0 {
		t.Error("a closing question was asked in a storm")
	}
	s.play(t, "calm +1100ms", "answers 1 a/1 b/1")
	if s.gate.Phase() != gate.Ready {
		t.Errorf("after the storm: %s, %v", s.gate.Phase(), s.gate.Blockers(s.now))
	}
}

// 20. Whatever share of words is lost, a lossy link never gives a readiness
// that lacks a fact, and a link that heals gives it.
func TestLossOfWordsDelaysButNeverFakesReadiness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := watch(t, config())
		lost := rapid.IntRange(0, 30).Draw(t, "percent")
		arrives := func() bool { return rapid.IntRange(0, 99).Draw(t, "luck") >= lost }
		w.step(gate.PoolDefined{Epoch: 1, Members: []gate.Member{{ID: node("a")}, {ID: node("b")}}})
		for range 30 {
			w.now += beat
			w.step(gate.ViewRead{})
			for _, n := range []string{"a", "b"} {
				for _, e := range []gate.Event{
					gate.NodeKnown{Node: node(n), Boot: boot(n, "1"), Endpoint: n},
					gate.SwimSeen{Node: node(n), Boot: boot(n, "1"), State: gate.SwimAlive, Incarnation: 1},
					gate.NodeAvailable{Node: node(n), Boot: boot(n, "1"), Attempt: 1},
					gate.EndpointDialled{Node: node(n), Boot: boot(n, "1"), Endpoint: n},
					gate.ContactMade{Node: node(n), Boot: boot(n, "1")},
					gate.NonceAnswered{Node: node(n), Boot: boot(n, "1"), Round: w.o.round},
				} {
					if arrives() {
						w.step(e)
					}
				}
			}
		}
		w.bringUp("a/1")
		w.check()
	})
}
