package orch

import (
	"context"
	"errors"
	"testing"
	"time"

	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/store"
	"muster/internal/wire"
)

// strike answers a long prompt and calls hit once some of it has come.
func (w *world) strike(hit func()) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	told := 0
	_, err := w.Generate(ctx, Request{Prompt: "hello", Sampling: infer.Greedy(), MaxTokens: 200}, func(string, wire.Answer) error {
		if told++; told == 5 {
			go hit()
		}
		if told >= 5 {
			time.Sleep(20 * time.Millisecond) // so that the blow falls in the middle
		}
		return nil
	})
	return err
}

// outcome waits for that of a run.
func (w *world) outcome(r id.RunID) *store.Outcome {
	w.t.Helper()
	var o *store.Outcome
	until(w.t, "an outcome", func() bool {
		got, err := w.store.Run(w.t.Context(), r)
		o = got.Outcome
		return err == nil && o != nil
	})
	return o
}

func three(c *Config) { c.Stages = [2]int{3, 3} }

// A worker dies in the middle of an answer: its neighbours see their streams
// end, and all the same the request, the store and the event name the node and
// its cause, once. The next run is served by the same nodes.
func TestAStagesDeathEndsTheRunByItsOwnCause(t *testing.T) {
	w := newWorld(t, 3, three).boot()
	first := w.serving(id.RunID{})
	victim := w.nodes[1]
	err := w.strike(func() {
		if err := victim.breakStage(fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "")); err != nil {
			t.Error(err)
		}
	})
	f := mustFault(t, err, fault.WorkerKilled)
	if f.Node != victim.name {
		t.Errorf("the fault names %q: %v", f.Node, f)
	}
	if o := w.outcome(first); o.Result != store.Faulted || !errors.Is(o.Fault, fault.WorkerKilled) {
		t.Errorf("outcome %+v", o)
	}
	if ends := told[event.RunEnded](w.events); len(ends) != 1 || ends[0].Node != idOf(victim.key) {
		t.Errorf("outcomes told: %+v", ends)
	}
	w.serving(first)
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("the next run said %q, %v", said, err)
	}
}

// A node goes without a word: SWIM suspects it, the request ends with a fault
// that names it, the others free what they hold, and nothing is formed before
// it is back. Its new boot is taken at once.
func TestANodesDeathIsNamedAndItsReturnServes(t *testing.T) {
	w := newWorld(t, 3, three).boot()
	first := w.serving(id.RunID{})
	victim := w.nodes[2]
	f := fault.From(w.strike(victim.die))
	if f.Node != victim.name && f.Node != idOf(victim.key).Short() {
		t.Errorf("the fault names %q: %v", f.Node, f)
	}
	for _, n := range w.nodes[:2] {
		until(t, "the survivors' stages freed", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.stage == nil
		})
	}
	_, _, err := w.say(1)
	mustFault(t, err, fault.OrchRequestRefused)
	back := &fakeNode{t: t, key: victim.key, name: victim.name}
	back.boot(w.Orch)
	w.serving(first)
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("the next run said %q, %v", said, err)
	}
}

// A node that loses a resource says so: the run ends with its fault as the
// cause, and the node counts again with its next attempt only.
func TestANodesFaultEndsTheRun(t *testing.T) {
	w := newWorld(t, 2).boot()
	w.serving(id.RunID{})
	err := w.strike(func() {
		if err := w.nodes[0].faulted(fault.New(fault.ArenaMapRefused, "arena")); err != nil {
			t.Error(err)
		}
	})
	f := mustFault(t, err, fault.NodeBootFaulted)
	if !errors.Is(f, fault.ArenaMapRefused) {
		t.Errorf("the cause is missing: %v", f)
	}
}

// A stage takes a record and gives none, with all sockets well: the watchdog
// ends the run and names it.
func TestAStuckStageIsNamed(t *testing.T) {
	w := newWorld(t, 3, three, func(c *Config) { c.Step = StepBounds{Floor: 2 * time.Second, Factor: 2} }).boot()
	w.serving(id.RunID{})
	victim := w.nodes[1]
	f := mustFault(t, w.strike(func() { victim.do(func() { victim.stuck = true }) }), fault.RunStepOverdue)
	if f.Attr("name") != victim.name {
		t.Errorf("it names another: %v", f)
	}
}

// A node refuses its stage: the run ends with the refusal, and the teardown does
// not wait for what never was.
func TestARefusedStageEndsTheRun(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Policy.Once = true; c.Stages[0] = 2 })
	w.nodes[1].refuse = fault.New(fault.ArenaSpaceShort, "stage", "need", "much")
	w.boot()
	until(t, "the end of the run", func() bool { return len(told[event.RunEnded](w.events)) == 1 })
	end := told[event.RunEnded](w.events)[0]
	if !errors.Is(end.Fault, fault.ArenaSpaceShort) {
		t.Errorf("the run ended by %v", end.Fault)
	}
	until(t, "its teardown", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Run.Phase == run.Done.String()
	})
	if late := told[event.RunTeardownOverdue](w.events); len(late) > 0 {
		t.Errorf("the teardown waited: %+v", late)
	}
}

// A stage that never gets ready ends the run at its deadline, by name; a node
// that does not free it is named too, and the orchestrator goes on.
func TestDeadlinesOfARunNameWhoOwes(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		c.Policy.Once, c.Stages[0] = true, 2
		c.Settings = run.Settings{Readying: 3 * time.Second, TearingDown: 4 * time.Second}
	})
	victim := w.nodes[0]
	victim.unready, victim.keeps = true, true
	w.boot()
	until(t, "an overdue teardown", func() bool { return len(told[event.RunTeardownOverdue](w.events)) == 1 })
	end := told[event.RunEnded](w.events)[0]
	if !errors.Is(end.Fault, fault.RunReadinessOverdue) || end.Node != idOf(victim.key) {
		t.Errorf("the run ended by %v of %s", end.Fault, end.Node.Short())
	}
	late := told[event.RunTeardownOverdue](w.events)[0]
	if late.Fault.Attr("nodes") != idOf(victim.key).Short() {
		t.Errorf("late: %v", late.Fault)
	}
}

// A client that goes away ends its request, not the run.
func TestAClientThatGoesLeavesTheRun(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	_, err := w.Generate(ctx, Request{Prompt: "hello", Sampling: infer.Greedy(), MaxTokens: 200}, func(string, wire.Answer) error {
		if told++; told == 3 {
			cancel()
		}
		return nil
	})
	mustFault(t, err, fault.RunInterrupted)
	full := errors.New("the client's pipe is full")
	_, err = w.Generate(t.Context(), Request{Prompt: "hello", Sampling: infer.Greedy(), MaxTokens: 200}, func(string, wire.Answer) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	_, err = w.Generate(t.Context(), Request{Prompt: "", Sampling: infer.Greedy()}, func(string, wire.Answer) error { return nil })
	mustFault(t, err, fault.RequestPromptEmpty)
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("afterwards it said %q, %v", said, err)
	}
	if s := w.session.Load(); s == nil || s.key.Run != first {
		t.Error("the run has ended")
	}
}
