package run

import (
	"fmt"
	"strings"

	"muster/internal/fault"
	"muster/internal/id"
)

// freed takes a confirmation. A node that frees a stage unasked has lost it.
func (t *turn) freed(e TornDown) {
	i := t.find(e.Of)
	if i < 0 || t.Phase == Done {
		return
	}
	t.free(i)
	t.conclude(Faulted, e.Node, stageEnded(e.Node))
	t.finish()
}

func stageEnded(n id.NodeID) *fault.Fault {
	f := fault.New(fault.RunStageEnded, component)
	f.Node = n.Short()
	return f
}

// free marks a stage of which nothing is left to wait for.
func (t *turn) free(i int) {
	if t.Phase != Done {
		t.Stages[i].Progress = max(t.Stages[i].Progress, Freed)
	}
}

// finish ends the teardown once nobody owes a confirmation.
func (t *turn) finish() {
	if t.Phase == TearingDown && len(t.owing()) == 0 {
		t.become(Done)
		t.emit(RunDone{t.Key})
	}
}

// owing lists the nodes that were ordered and have not been freed.
func (t *turn) owing() []id.NodeID {
	var nodes []id.NodeID
	for _, s := range t.Stages {
		if s.Progress >= Ordered && s.Progress < Freed {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// expire ends a phase whose deadline has come.
func (t *turn) expire() {
	if t.Due == 0 || t.Now < t.Due {
		return
	}
	within, code := t.Settings.within(t.Phase)
	late := t.late()
	f := fault.New(code, component, "waited", fmt.Sprintf("%.1f s", within.Seconds()), "nodes", names(late))
	if t.Phase == TearingDown {
		t.emit(TeardownOverdue{Key: t.Key, Nodes: late, Fault: f})
		t.become(Done)
		t.emit(RunDone{t.Key})
		return
	}
	var one id.NodeID
	if len(late) == 1 {
		one = late[0]
		f.Node = one.Short()
	}
	t.conclude(Faulted, one, f)
}

// late lists the nodes that the present phase waits for.
func (t *turn) late() []id.NodeID {
	switch t.Phase {
	case Provisioning:
		return t.short(Accepted)
	case Readying:
		return t.short(Ready)
	default:
		return t.owing()
	}
}

// short lists the nodes whose stages have not come that far.
func (t *turn) short(p Progress) []id.NodeID {
	var nodes []id.NodeID
	for _, s := range t.Stages {
		if s.Progress < p {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

func names(nodes []id.NodeID) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = n.Short()
	}
	return strings.Join(words, ", ")
}
