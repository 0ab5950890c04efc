package orch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/core/run"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// A stage that says that it is ready and holds no route ends the run: nothing is
// served.
func TestAStageWithoutARouteNeverServes(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Policy.Once, c.Stages[0] = true, 2 })
	w.nodes[1].unproven = true
	w.boot()
	until(t, "the end of the run", func() bool { return len(told[event.RunEnded](w.events)) == 1 })
	if f := told[event.RunEnded](w.events)[0].Fault; !errors.Is(f, fault.AdmitRouteMissing) {
		t.Errorf("the run ended by %v", f)
	}
	if n := len(told[event.RunServed](w.events)); n != 0 {
		t.Errorf("it served %d times", n)
	}
	_, _, err := w.say(1)
	mustFault(t, err, fault.OrchRequestRefused)
}

// A report that is not of just that stage is refused, the refusal is told, and
// the run ends by it before anything is served.
func TestAReportThatDoesNotMatchIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*admit.Report)
		code  fault.Code
	}{
		"of another slice":     {func(r *admit.Report) { r.Slice[3]++ }, fault.AdmitSliceMismatched},
		"of another revision":  {func(r *admit.Report) { r.Revision[3]++ }, fault.AdmitRevisionMismatched},
		"of another recipe":    {func(r *admit.Report) { r.Recipe[3]++ }, fault.AdmitRecipeMismatched},
		"by another engine":    {func(r *admit.Report) { r.Backend[3]++ }, fault.AdmitBackendMismatched},
		"of another run":       {func(r *admit.Report) { r.Run[15]++ }, fault.AdmitRunMismatched},
		"of another pool":      {func(r *admit.Report) { r.Pool = "work" }, fault.AdmitPoolMismatched},
		"by another yardstick": {func(r *admit.Report) { r.Referenced = !r.Referenced }, fault.AdmitReferenceMismatched},
		"whose forward failed": {func(r *admit.Report) {
			r.Checks[0] = probe.Check{Name: probe.Slice, Got: 1}
		}, fault.AdmitCheckFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(c *Config) { c.Policy.Once, c.Stages[0] = true, 2 })
			victim := w.nodes[1]
			victim.spoil = c.spoil
			w.boot()
			until(t, "the end of the run", func() bool { return len(told[event.RunEnded](w.events)) == 1 })
			end := told[event.RunEnded](w.events)[0]
			if !errors.Is(end.Fault, c.code) || end.Node != idOf(victim.key) {
				t.Errorf("the run ended by %v of %s", end.Fault, end.Node.Short())
			}
			s, err := w.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range s.Nodes {
				if unfit := n.Unfit != nil && n.Unfit.Code == c.code; unfit != (n.Node == idOf(victim.key)) {
					t.Errorf("%s is unfit by %v", n.Name, n.Unfit)
				}
			}
			// The other may come too late for the run, and be refused by that.
			until(t, "the refusal told", func() bool {
				return slices.ContainsFunc(told[event.RegistrationRefused](w.events), func(r event.RegistrationRefused) bool {
					return r.Label == victim.name && r.Fault.Code == c.code
				})
			})
			if n := len(told[event.RunServed](w.events)); n != 0 {
				t.Errorf("it served %d times", n)
			}
		})
	}
}

// A lease that ends under a run that serves ends the run by its reason; requests
// are refused from that moment on, and the next run has new leases.
func TestALostRouteEndsTheRun(t *testing.T) {
	w := newWorld(t, 2).boot()
	first := w.serving(id.RunID{})
	if n := len(told[event.LeaseGranted](w.events)); n < 1 {
		t.Fatalf("%d leases", n)
	}
	victim := w.Orch.session.Load().run.Stages[0]
	w.tracker.NodeLost(victim.Node, fault.New(fault.AdmitLeaseExpired, "test", "want", "10 s"))
	if _, _, err := w.say(1); err == nil {
		t.Error("a request was answered without a route")
	}
	o := w.outcome(first)
	if o.Result != store.Faulted || !errors.Is(o.Fault, fault.AdmitLeaseExpired) || o.Fault.Node != victim.Name {
		t.Errorf("outcome %+v", o.Fault)
	}
	w.serving(first)
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("the next run said %q, %v", said, err)
	}
}

// Nothing is wanted of a node that is no part of the run at hand, and nothing
// once it has ended.
func TestNothingIsWantedBeyondTheRun(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Stages = [2]int{1, 1} }).boot()
	w.serving(id.RunID{})
	held := w.Orch.session.Load().run.Stages[0]
	for _, n := range w.nodes {
		want, err := registrar{w.Orch}.Wanted(t.Context(), admit.Report{Binding: admit.Binding{Node: idOf(n.key)}})
		if err != nil {
			t.Fatal(err)
		}
		if wanted := want.Purpose == admit.ForStage; wanted != (idOf(n.key) == held.Node) {
			t.Errorf("of %s there is wanted %+v", n.name, want.Binding)
		}
	}
	if err := w.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	want, err := registrar{w.Orch}.Wanted(t.Context(), admit.Report{Binding: admit.Binding{Node: held.Node}})
	if err != nil || want.Purpose != "" {
		t.Errorf("of an ended run there is wanted %+v (%v)", want.Binding, err)
	}
}

// A pool whose node fails each time is formed at growing pauses, says why, and
// serves once the node does not fail any more. Who asks for a run does not wait.
func TestAPoolThatIsNotAdmittedPauses(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Stages[0] = 2 })
	victim := w.nodes[1]
	victim.spoil = func(r *admit.Report) { r.Slice[3]++ }
	w.boot()
	until(t, "two runs that were not admitted", func() bool { return len(told[event.RunEnded](w.events)) == 2 })
	until(t, "a pause that is told", func() bool {
		s, err := w.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(s.Pool.Blockers, func(b Blocker) bool {
			return b.Node.IsZero() && strings.Contains(b.What, "the last run did not come to serve") && b.Do != ""
		})
	})
	victim.do(func() { victim.spoil = nil })
	if err := w.Form(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.serving(id.RunID{})
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("it said %q, %v", said, err)
	}
}

// A node that leaves while its run ends has freed what it held: nobody waits for
// it, however long the teardown may last.
func TestNodesThatLeaveOweNoTeardown(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		c.Stages[0] = 2
		c.Settings = run.Settings{TearingDown: time.Hour}
	})
	for _, n := range w.nodes {
		n.keeps = true
	}
	w.boot()
	w.serving(id.RunID{})
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait)
		defer cancel()
		stopped <- w.Stop(ctx, false)
	}()
	until(t, "the teardown", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Run.Phase == run.TearingDown.String()
	})
	for _, n := range w.nodes {
		if err := n.report(nodeLeft()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("the stop: %v", err)
	}
}
