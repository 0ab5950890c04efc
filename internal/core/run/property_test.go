package run_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/run"
	"muster/internal/id"
)

var plans = [][]string{{"a/1"}, {"a/1", "b/1"}, {"a/1", "b/1"}, {"a/1", "b/1", "c/1"}, {}, {"a/1", "a/1"}, {"a/"}}

func anyEvents(t *rapid.T) []run.Event {
	k := key("r1", 1)
	if rapid.IntRange(0, 9).Draw(t, "stray") == 0 {
		k = rapid.SampledFrom([]run.Key{key("r2", 1), key("r1", 2), {}}).Draw(t, "key")
	}
	p := placed(rapid.SampledFrom([]string{"a/1", "a/1", "b/1", "b/1", "c/1", "c/1", "a/2", "z/1"}).Draw(t, "node"))
	of := run.Of{Key: k, Node: p.Node, Boot: p.Boot}
	made := run.PlanMade{Key: k}
	for _, w := range rapid.SampledFrom(plans).Draw(t, "plan") {
		made.Stages = append(made.Stages, placed(w))
	}
	all := []run.Event{run.RunAsked{Key: k}, made, run.CommitGranted{Key: k}}
	switch rapid.IntRange(0, 29).Draw(t, "kind") {
	case 0, 1:
		return all
	case 24, 25:
		for _, p := range made.Stages {
			all = append(all, run.StageAccepted{Of: run.Of{Key: k, Node: p.Node, Boot: p.Boot}})
		}
		return all
	case 26, 27, 28, 29:
		for _, p := range made.Stages {
			all = append(all, run.StageReady{Of: run.Of{Key: k, Node: p.Node, Boot: p.Boot}})
		}
		if rapid.Bool().Draw(t, "whole") {
			all = append(all, run.CompletionAsked{Key: k})
		}
		return all
	case 2, 3:
		return all[:1]
	case 4:
		return all[1:2]
	case 5:
		return all[2:]
	case 6:
		return []run.Event{run.PlanFailed{Key: k, Fault: why}}
	case 7:
		return []run.Event{run.CommitRefused{Key: k, Fault: why}}
	case 8:
		return []run.Event{run.StageRefused{Of: of, Fault: why}}
	case 9:
		return []run.Event{run.StageFaulted{Of: of, Fault: why}}
	case 10:
		return []run.Event{run.NodeLost{Key: k, Node: p.Node, Fault: why}}
	case 11:
		return []run.Event{run.NodeLost{Key: k, Fault: why}}
	case 12, 13:
		return []run.Event{run.CompletionAsked{Key: k}}
	case 14:
		return []run.Event{run.StopAsked{Key: k}}
	case 15, 16:
		return []run.Event{run.TornDown{Of: of}}
	case 17, 18:
		return []run.Event{run.StageAccepted{Of: of}}
	case 19, 20, 21, 22:
		return []run.Event{run.StageReady{Of: of}}
	default:
		return []run.Event{run.Tick{}}
	}
}

// heard follows what a run tells the world, and fails on what must never be.
type heard struct {
	outcomes, done   int
	returned         int // pools granted too late
	provisioned      map[id.NodeID]int
	told             map[id.NodeID]int // to tear down
	serving          bool
	overdue          []id.NodeID
	wake             time.Duration
	outcome          run.Outcome
	faultWithoutWord bool
}

func (h *heard) hear(effects []run.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case run.RunCompleted:
			h.outcomes++
			h.outcome = run.Completed
		case run.RunStopped:
			h.outcomes++
			h.outcome = run.Stopped
		case run.RunFaulted:
			h.outcomes++
			h.outcome = run.Faulted
			h.faultWithoutWord = h.faultWithoutWord || e.Fault == nil
		case run.RunDone:
			h.done++
		case run.ReturnPool:
			h.returned++
		case run.Provision:
			h.provisioned[e.Node]++
		case run.TearDown:
			h.told[e.Node]++
		case run.OpenServing:
			h.serving = true
		case run.CloseServing:
			h.serving = false
		case run.TeardownOverdue:
			h.overdue = e.Nodes
		case run.Wake:
			h.wake = e.At
		}
	}
}

var steps = []time.Duration{0, 0, 0, 0, 1, 100 * time.Millisecond, 500 * time.Millisecond, time.Second}

// One outcome, once; one order a node; everybody who was ordered is told to free
// or has freed; done only when nobody owes; serving exactly while all are ready.
func TestARunAgreesWithTheWholeLog(t *testing.T) {
	reached := map[run.Phase]int{}
	outcomes := map[run.Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		state := run.New(settings())
		h := heard{provisioned: map[id.NodeID]int{}, told: map[id.NodeID]int{}}
		var log []told
		now := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "length") {
			now += rapid.SampledFrom(steps).Draw(t, "later")
			for _, e := range anyEvents(t) {
				log = append(log, told{e, now})
				before, stages := state, slices.Clone(state.Stages)
				var effects []run.Effect
				state, effects = run.Step(state, e, now)
				h.hear(effects)
				if !slices.Equal(before.Stages, stages) {
					t.Fatal("a step wrote to the state it was given")
				}
				check(t, state, &h, judge(log), log)
				reached[state.Phase]++
				outcomes[state.Outcome]++
			}
		}
	})
	for _, p := range run.Phases() {
		if reached[p] == 0 {
			t.Errorf("no sequence came to %s", p)
		}
	}
	if len(outcomes) != 4 {
		t.Errorf("outcomes seen: %v", outcomes)
	}
}

func check(t *rapid.T, s run.State, h *heard, v verdict, log []told) {
	if s.Phase != v.phase || s.Outcome != v.outcome {
		t.Fatalf("%s, %s; the log says %s, %s: %+v", s.Phase, s.Outcome, v.phase, v.outcome, log)
	}
	ended := 0
	if v.outcome != run.Open {
		ended = 1
	}
	if h.outcomes != ended || h.outcome != v.outcome || (h.done == 1) != (v.phase == run.Done) || h.done > 1 || h.faultWithoutWord {
		t.Fatalf("heard %+v of %+v", h, v)
	}
	if late, ok := log[len(log)-1].e.(run.CommitGranted); ok && h.returned == 0 && v.phase == run.Done && len(h.provisioned) == 0 && late.Key == s.Key {
		t.Fatal("a pool that was granted too late is kept")
	}
	if h.returned > 0 && (v.phase != run.Done || len(h.provisioned) > 0) {
		t.Fatal("the pool of a run that holds it was given back")
	}
	if h.serving != (v.phase == run.Serving) {
		t.Fatalf("serving is %v in %s", h.serving, v.phase)
	}
	for n, times := range h.provisioned {
		if times != 1 || h.told[n] > 1 {
			t.Fatalf("%s was ordered %d times and told to free %d times", n.Short(), times, h.told[n])
		}
	}
	for n := range v.owing {
		if h.told[n] != 1 {
			t.Fatalf("%s owes a confirmation that it was not asked for", n.Short())
		}
	}
	if s.Due != 0 && h.wake != s.Due || (s.Due != 0) != (deadlines[s.Phase] > 0) {
		t.Fatalf("%s is due at %s, woken at %s", s.Phase, s.Due, h.wake)
	}
}

// Whatever has been: within the sum of the deadlines a run that is told to stop
// is done.
func TestAStopIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := run.New(settings())
		now := time.Duration(0)
		state, _ = run.Step(state, run.RunAsked{Key: key("r1", 1)}, now)
		for range rapid.IntRange(0, 30).Draw(t, "length") {
			for _, e := range anyEvents(t) {
				state, _ = run.Step(state, e, now)
			}
		}
		state, _ = run.Step(state, run.StopAsked{Key: key("r1", 1)}, now)
		state, _ = run.Step(state, run.Tick{}, now+deadlines[run.TearingDown])
		if state.Phase != run.Done || state.Outcome == run.Open {
			t.Fatalf("%s, %s", state.Phase, state.Outcome)
		}
	})
}

func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 7, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		state := run.New(settings())
		var log []told
		now := time.Duration(0)
		for ; len(b) >= 4 && len(log) < 60; b = b[4:] {
			now += time.Duration(b[3]) * 10 * time.Millisecond
			k := []run.Key{key("r1", 1), key("r1", 1), key("r1", 2), {}}[b[1]%4]
			p := placed([]string{"a/1", "b/1", "a/2", ""}[b[2]%4])
			of := run.Of{Key: k, Node: p.Node, Boot: p.Boot}
			e := []run.Event{
				run.RunAsked{Key: k},
				run.PlanMade{Key: k, Stages: []run.Placed{p, placed("c/1")}},
				run.PlanFailed{Key: k},
				run.CommitGranted{Key: k},
				run.CommitRefused{Key: k},
				run.StageAccepted{Of: of},
				run.StageRefused{Of: of},
				run.StageReady{Of: of},
				run.StageFaulted{Of: of},
				run.NodeLost{Key: k, Node: p.Node},
				run.CompletionAsked{Key: k},
				run.StopAsked{Key: k},
				run.TornDown{Of: of},
				run.Tick{},
			}[b[0]%14]
			log = append(log, told{e, now})
			state, _ = run.Step(state, e, now)
		}
		if v := judge(log); v.phase != state.Phase || v.outcome != state.Outcome {
			t.Fatalf("%s, %s; the log says %+v: %+v", state.Phase, state.Outcome, v, log)
		}
	})
}
