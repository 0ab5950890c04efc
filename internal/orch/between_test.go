package orch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster/internal/core/gate"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// idle brings a pool to its readiness and keeps runs from being formed on it.
func (w *world) idle() {
	w.t.Helper()
	if err := w.Stop(w.t.Context(), false); err != nil {
		w.t.Fatal(err)
	}
	w.boot()
	w.phase("ready")
}

// phase waits until the gate is in one.
func (w *world) phase(want string) {
	w.t.Helper()
	until(w.t, "the pool "+want, func() bool {
		s, err := w.Status(w.t.Context())
		return err == nil && s.Pool.Phase == want
	})
}

// A plan is made from a readiness, and something is lost before it is committed:
// the commit is refused whatever it was, no node is given a stage, and no run
// holds the pool.
func TestAPlanOfALostReadinessIsNotCommitted(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"suspected": func(w *world) {
			w.letter(gate.SwimSeen{Node: idOf(w.nodes[1].key), Boot: w.nodes[1].id, State: gate.SwimSuspect, Incarnation: 1 << 20})
		},
		"faulted": func(w *world) {
			if err := w.nodes[1].faulted(fault.New(fault.ArenaMapRefused, "arena")); err != nil {
				w.t.Fatal(err)
			}
		},
		"left": func(w *world) {
			if err := w.nodes[1].report(nodeLeft()); err != nil {
				w.t.Fatal(err)
			}
		},
		"silent": func(w *world) { w.nodes[1].do(func() { w.nodes[1].deaf = true }); w.phase("waiting") },
		"removed": func(w *world) {
			w.redefine([]store.Node{{ID: idOf(w.nodes[0].key), Name: "n1"}})
		},
		"added to": func(w *world) {
			w.redefine(append(slices.Clone(w.cfg.Pool.Nodes), store.Node{ID: idOf(newKey(w.t)), Name: "n3"}))
		},
		"the orchestrator is unwell": func(w *world) { w.letter(gate.HealthSeen{Bad: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.idle()
			var stale *gate.PoolReady
			w.inside(func(m *mailbox) { stale = m.ready })
			if stale == nil {
				t.Fatal("the pool is not ready")
			}
			lose(w)
			w.inside(func(m *mailbox) {
				m.ready, m.wanted = stale, true
				m.form()
			})
			until(t, "the end of the run", func() bool { return len(told[event.RunEnded](w.events)) == 1 })
			if end := told[event.RunEnded](w.events)[0]; !errors.Is(end.Fault, fault.PoolCommitRefused) {
				t.Errorf("the run ended by %v", end.Fault)
			}
			for _, p := range told[event.RunPlanned](w.events) {
				if name == "faulted" && slices.ContainsFunc(p.Stages, func(s event.PlannedStage) bool { return s.Node == idOf(w.nodes[1].key) }) {
					t.Errorf("a faulted node came before the planner: %+v", p)
				}
			}
			w.inside(func(m *mailbox) {
				if r := m.gate.Run(); !r.IsZero() {
					t.Errorf("run %s holds the pool", r.Short())
				}
			})
			for _, n := range w.nodes {
				n.do(func() {
					if n.stage != nil {
						t.Errorf("%s was given a stage", n.name)
					}
				})
			}
		})
	}
}

// redefine changes the nodes of the pool, at its epoch.
func (w *world) redefine(nodes []store.Node) {
	w.t.Helper()
	p, err := w.Pool(w.t.Context())
	if err == nil {
		p.Nodes = nodes
		_, err = w.DefinePool(w.t.Context(), p)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// letter gives the mailbox an event, and waits until it was taken.
func (w *world) letter(l letter) {
	w.t.Helper()
	w.inside(func(m *mailbox) { m.take(l) })
}

// inside does something in the mailbox, and waits for it.
func (w *world) inside(do func(*mailbox)) {
	w.t.Helper()
	if err := w.ask(w.t.Context(), do); err != nil {
		w.t.Fatal(err)
	}
}

// A loss before a commit: by policy the pool forms again by itself, or not
// before it is asked to.
func TestALossBeforeTheCommitWaitsOrAborts(t *testing.T) {
	for name, c := range map[string]struct {
		policy gate.Policy
		phase  string
	}{"wait": {gate.Wait, "waiting"}, "abort": {gate.Abort, "aborted"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(cfg *Config) { cfg.Policy.Loss = c.policy })
			w.idle()
			if err := w.nodes[0].faulted(fault.New(fault.ArenaMapRefused, "arena")); err != nil {
				t.Fatal(err)
			}
			w.phase(c.phase)
			if lost := told[event.PoolReadinessLost](w.events); len(lost) != 1 || !errors.Is(lost[0].Fault, fault.ArenaMapRefused) {
				t.Errorf("lost: %+v", lost)
			}
			w.inside(func(m *mailbox) {
				if m.ready != nil {
					t.Error("the readiness is held on to")
				}
			})
			if ends := told[event.PoolFormationEnded](w.events); (len(ends) == 1) != (c.policy == gate.Abort) {
				t.Errorf("ended: %+v", ends)
			}
			w.nodes[0].attempt = 2
			w.nodes[0].available()
			if c.policy == gate.Abort {
				w.phase("aborted")
			} else {
				w.phase("ready")
			}
			if err := w.Form(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.serving(id.RunID{})
		})
	}
}

// A node that has faulted never comes before the planner, also where it was
// available before, and its fault is what the pool is said to wait for.
func TestAFaultedNodeIsNotPlannedOn(t *testing.T) {
	for name, before := range map[string]bool{"before it was available": false, "after it was available": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(c *Config) { c.Stages[0] = 2 })
			sick := w.nodes[1]
			sick.open(w.Orch)
			if err := sick.hello(""); err != nil {
				t.Fatal(err)
			}
			if before {
				sick.available()
			}
			if err := sick.faulted(fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "")); err != nil {
				t.Fatal(err)
			}
			w.nodes[0].boot(w.Orch)
			until(t, "a blocker that says why", func() bool {
				s, err := w.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return len(s.Pool.Blockers) == 1 && s.Pool.Blockers[0].Node == idOf(sick.key)
			})
			w.inside(func(m *mailbox) {
				if m.ready != nil || m.lead != nil {
					t.Error("a plan was begun")
				}
			})
			if planned := told[event.RunPlanned](w.events); len(planned) != 0 {
				t.Errorf("planned: %+v", planned)
			}
			sick.attempt = 2
			sick.available()
			w.serving(id.RunID{})
		})
	}
}

// A node whose endpoint cannot be dialled back has no data-plane identity,
// however alive it is.
func TestANodeThatIsNotWhereItSaysIsNotReady(t *testing.T) {
	w := newWorld(t, 2)
	w.nodes[0].boot(w.Orch)
	w.nodes[1].says = w.nodes[0].endpoint.Addr().String()
	w.nodes[1].open(w.Orch)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	_ = w.nodes[1].hello("") // it may not be reached where it says
	w.nodes[1].available()
	until(t, "a blocker that names its key", func() bool {
		s, err := w.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range s.Pool.Blockers {
			if b.Node == idOf(w.nodes[1].key) && b.Do == fault.EndpointIdentityMismatched.Entry().Hint {
				return true
			}
		}
		return false
	})
	if ready := told[event.PoolBecameReady](w.events); len(ready) != 0 {
		t.Errorf("ready: %+v", ready)
	}
}

// The orchestrator itself does not get to run: the run ends, and no node is
// blamed for what was not heard meanwhile.
func TestAStarvedOrchestratorBlamesNoNode(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	w.inside(func(m *mailbox) { // as long as no tick, answer or contact can be that is not late
		time.Sleep(m.o.figures.gate.Late + m.o.figures.gate.Beat + m.o.figures.gate.Contact)
	})
	o := w.outcome(first)
	if o.Result != store.Faulted || !errors.Is(o.Fault, fault.OrchStarved) || o.Fault.Node != "" {
		t.Errorf("outcome %+v", o)
	}
	if ends := told[event.RunEnded](w.events); len(ends) != 1 || !ends[0].Node.IsZero() {
		t.Errorf("ended: %+v", ends)
	}
	w.serving(first)
}
