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
	"muster/internal/store"
	"muster/internal/wire/controlpb"
)

// A neighbour's lost stream, and even the end of its stage, come before the
// cause does: the run ends by the cause.
func TestTheCauseIsToldNotTheSymptom(t *testing.T) {
	w := newWorld(t, 3, three).boot()
	first := w.serving(id.RunID{})
	neighbour, victim := w.nodes[0], w.nodes[1]
	if err := neighbour.breakStage(fault.New(fault.EdgeStreamDropped, "edge", "edge", "e", "peer", "p", "way", "to")); err != nil {
		t.Fatal(err)
	}
	neighbour.mu.Lock()
	order := neighbour.stage.order
	neighbour.mu.Unlock()
	if err := neighbour.report(&controlpb.Report{Event: &controlpb.Report_StageTornDown{StageTornDown: &controlpb.StageTornDown{
		RunId: order.GetRunId(), Attempt: order.GetAttempt(),
	}}}); err != nil {
		t.Fatal(err)
	}
	if err := victim.breakStage(fault.New(fault.WorkerExited, "worker", "status", 1, "log", "")); err != nil {
		t.Fatal(err)
	}
	if o := w.outcome(first); !errors.Is(o.Fault, fault.WorkerExited) {
		t.Errorf("the run ended by %v", o.Fault)
	}
}

// A lost stream that nothing explains ends the run all the same.
func TestASymptomAloneEndsTheRun(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	dropped := fault.New(fault.EdgeStreamDropped, "edge", "edge", "e", "peer", "p", "way", "to")
	if err := w.nodes[0].breakStage(dropped); err != nil {
		t.Fatal(err)
	}
	if o := w.outcome(first); !errors.Is(o.Fault, fault.EdgeStreamDropped) {
		t.Errorf("the run ended by %v", o.Fault)
	}
}

// A node that still holds the stage of a run that is over is asked again and
// again, is named as what stands in the way, and gets no other stage before.
func TestAStageThatIsNotFreedHoldsUpTheNextRun(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		c.Stages[0] = 2
		c.Settings = run.Settings{Readying: 2 * time.Second, TearingDown: 2 * time.Second}
	})
	victim := w.nodes[0]
	victim.unready, victim.keeps = true, true
	w.boot()
	until(t, "a blocker that names it", func() bool {
		s, err := w.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range s.Pool.Blockers {
			if b.Name == victim.name && s.Pool.Phase == "ready" {
				return true
			}
		}
		return false
	})
	if planned := told[event.RunPlanned](w.events); len(planned) != 1 {
		t.Errorf("%d runs were planned", len(planned))
	}
	victim.do(func() { victim.unready, victim.keeps = false, false })
	w.serving(id.RunID{})
}

// A run that did its work is recorded as completed, and another is formed when
// it is asked for, not before.
func TestACompletedRunIsFollowedOnRequest(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	if err := w.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := w.outcome(first); o.Result != store.Completed || o.Fault != nil {
		t.Errorf("outcome %+v", o)
	}
	until(t, "the pool ready again", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Pool.Phase == "ready"
	})
	_, _, err := w.say(1)
	mustFault(t, err, fault.OrchRequestRefused)
	if err := w.Form(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.serving(first)
	runs, err := w.Runs(t.Context(), 10)
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// Stop in the middle of an answer lets it end, and takes no other meanwhile.
func TestStopLetsARunningAnswerEnd(t *testing.T) {
	w := newWorld(t, 2).boot()
	w.serving(id.RunID{})
	stopped := make(chan error, 1)
	refused := make(chan error, 1)
	err := w.strike(func() {
		go func() { stopped <- w.Stop(context.WithoutCancel(t.Context()), false) }()
		until(t, "the draining", func() bool {
			s := w.session.Load()
			return s == nil || s.draining.Load()
		})
		_, _, err := w.say(1)
		refused <- err
	})
	if err != nil {
		t.Errorf("the running answer ended with %v", err)
	}
	mustFault(t, <-refused, fault.RequestServiceStopped)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// An answer that goes on for longer than the stop may wait ends with the run.
func TestStopEndsAnAnswerThatTakesTooLong(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Drain = 50 * time.Millisecond }).boot()
	w.serving(id.RunID{})
	stopped := make(chan error, 1)
	err := w.strike(func() { stopped <- w.Stop(context.WithoutCancel(t.Context()), false) })
	mustFault(t, err, fault.RunStopped)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// deafStore refuses events until it is told not to.
type deafStore struct {
	store.Journal
	deaf bool
	kept []event.Event
}

func (s *deafStore) Append(_ context.Context, all ...event.Stamped) (uint64, error) {
	if s.deaf {
		return 0, errors.New("no space")
	}
	for _, e := range all {
		s.kept = append(s.kept, e.Event)
	}
	return uint64(len(s.kept)), nil
}

// What the disk does not take is counted and said, and telling goes on.
func TestLostEventsAreCounted(t *testing.T) {
	s := &deafStore{deaf: true}
	j := newJournal(s, func(event.Event) {})
	for range mostQueued + 10 {
		j.Tell(event.PoolDefined{})
	}
	j.flush()
	s.deaf = false
	j.flush()
	if len(s.kept) != mostQueued-mostWritten+1 {
		t.Fatalf("%d were kept", len(s.kept))
	}
	var lost string
	for _, e := range s.kept {
		if d, ok := e.(event.EventsDropped); ok {
			lost = d.Fault.Attr("events")
		}
	}
	if lost != "266" {
		t.Errorf("%s were said to be lost", lost)
	}
}
