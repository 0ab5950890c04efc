package node

import (
	"encoding/json"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/wire"
)

// A neighbour sends half a record and keeps its stream, with every socket well:
// the stage ends in time by a fault that names the neighbour, and the node
// serves the next run.
func TestHalfARecordEndsTheStageByTheNeighboursName(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.run(o.realConfig())
	n.available(1)
	for name, share := range map[string]func(whole int) int{
		"one byte":         func(int) int { return 1 },
		"half":             func(whole int) int { return whole / 2 },
		"all but one byte": func(whole int) int { return whole - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			r := o.plan(n)
			r.form()
			b := firstRecord(t)
			sent := time.Now()
			if _, err := r.first.Write(b[:share(len(b))]); err != nil {
				t.Fatal(err)
			}
			o.until("StageTornDown", func() bool { return o.reported(n.id, r.isTornDown) == 1 })
			if took := time.Since(sent); took > 10*time.Second {
				t.Errorf("the stage ended after %s", took)
			}
			f := r.stageFault(n)
			if f == nil || f.Code != fault.EdgeRecordOverdue || f.Node != o.endpoint.ID().Short() || f.Component != "edge" {
				t.Errorf("the stage faulted: %v", f)
			}
			_ = r.pipe.Close(t.Context()) // the stage is gone
			r.arrival.Close()
		})
	}
	next := o.plan(n)
	next.form()
	next.tell(3)
	next.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if count[event.NodeFaulted](n) != 0 {
		t.Error("the node faulted")
	}
}

// firstRecord is a sound one, as it opens a slot.
func firstRecord(t *testing.T) []byte {
	t.Helper()
	prompt := []int32{1, 300, 301}
	extra, err := json.Marshal(wire.SlotOpen{Sampling: infer.Greedy(), Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	r := wire.Record{ID: 1, Kind: wire.KindTokens, Tokens: prompt, Items: []wire.Item{{
		Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 1, Count: len(prompt), Extra: extra,
	}}}
	b, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
