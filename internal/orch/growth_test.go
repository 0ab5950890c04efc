package orch

import (
	"fmt"
	"runtime"
	"testing"

	"muster/internal/id"
	"muster/internal/testkit"
)

// Pools are formed, answer and are stopped, some at once since each must be
// stable for a while, round after round. No process, descriptor, memory file or
// goroutine is left of them.
func TestManyPoolsLeaveNothing(t *testing.T) {
	const rounds, pools = 10, 5
	testkit.Leaks(t)
	before := runtime.NumGoroutine()
	for round := range rounds {
		t.Run(fmt.Sprint(round+1), func(t *testing.T) {
			var all []*world
			for range pools {
				all = append(all, newWorld(t, 2).boot())
			}
			for _, w := range all {
				w.serving(id.RunID{})
				if said, _, err := w.say(2); err != nil || said != "5 6 " {
					t.Errorf("it said %q, %v", said, err)
				}
				if err := w.Stop(t.Context(), true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	until(t, "the goroutines of before, and no more", func() bool { return runtime.NumGoroutine() <= before })
}
