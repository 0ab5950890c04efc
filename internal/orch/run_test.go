package orch

import (
	"testing"

	"muster/internal/event"
	"muster/internal/id"
	"muster/internal/store"
)

// Three nodes say hello, the pool becomes ready, a run is planned over all of
// them, a prompt is answered, and the run ends as it was told to.
func TestAPoolFormsServesAndStops(t *testing.T) {
	w := newWorld(t, 3, func(c *Config) { c.Stages = [2]int{3, 3} }).boot()
	until(t, "a window that runs out", func() bool {
		s, err := w.Status(t.Context())
		return err == nil && s.Pool.Phase == "settling" && s.Pool.Left > 0 && s.Pool.Left <= s.Pool.Window
	})
	runID := w.serving(id.RunID{})
	said, res, err := w.say(4)
	if err != nil {
		t.Fatal(err)
	}
	if said != "5 6 7 8 " || len(res.Tokens) != 4 {
		t.Fatalf("said %q, %+v", said, res)
	}
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Fatalf("said %q the second time, %v", said, err)
	}
	status, err := w.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Pool.Phase != "committed" || !status.Serving || len(status.Run.Stages) != 3 || status.Run.Stages[2].Layers[1] != 8 {
		t.Fatalf("status %+v, run %+v", status, status.Run)
	}
	if err := w.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, n := range w.nodes {
		n.do(func() {
			if n.stage != nil || !n.left {
				t.Errorf("%s: stage %v, told to leave %v", n.name, n.stage != nil, n.left)
			}
		})
	}
	until(t, "an outcome in the store", func() bool {
		r, err := w.store.Run(t.Context(), runID)
		return err == nil && r.Outcome != nil && r.Outcome.Result == store.Stopped
	})
	if ends := told[event.RunEnded](w.events); len(ends) != 1 {
		t.Errorf("outcomes told: %+v", ends)
	}
}
