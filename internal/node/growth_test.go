package node

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
)

// Nodes boot, take a stage, lose it and leave, some at once, round after round.
// No process, descriptor, memory file or goroutine is left of them.
func TestManyNodesLeaveNothing(t *testing.T) {
	const rounds, nodes = 10, 5
	testkit.Leaks(t)
	before := runtime.NumGoroutine()
	for round := range rounds {
		t.Run(fmt.Sprint(round+1), func(t *testing.T) {
			o := newOrchestrator(t)
			refuses := fakeworker.Knobs{At: fakeworker.On(wire.OpLoad), Do: fakeworker.Refuse, Text: string(fault.StageLoadFailed)}
			var all []*running
			for range nodes {
				all = append(all, o.run(o.config(refuses)))
			}
			for _, n := range all {
				n.available(1)
				r := o.plan(n)
				if err := r.provision(0); err != nil {
					t.Fatal(err)
				}
				o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
				if f := r.stageFault(n); f == nil || f.Code != fault.StageLoadFailed {
					t.Errorf("the stage faulted: %v", f)
				}
			}
			for _, n := range all {
				n.until("the next stage's worker", func() bool { return count[event.WorkerStarted](n) == 2 })
				if err := n.end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for deadline := time.Now().Add(wait); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines were there, now\n%s", before, stacks())
		}
	}
}

// stacks are those of all goroutines.
func stacks() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}
