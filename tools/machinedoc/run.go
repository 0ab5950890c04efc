package main

import (
	"time"

	"muster/internal/core/run"
	"muster/internal/fault"
	"muster/internal/id"
)

var (
	runKey = run.Key{Run: id.RunID{1}, Attempt: 1}
	runA   = run.Placed{Node: id.NodeID{1}, Boot: id.BootID{1}}
	runB   = run.Placed{Node: id.NodeID{2}, Boot: id.BootID{2}}
)

func runOf(p run.Placed) run.Of { return run.Of{Key: runKey, Node: p.Node, Boot: p.Boot} }

func runMachine() machine {
	why := fault.New(fault.InternalUnexpected, "")
	restarted := runOf(runB)
	restarted.Boot = id.BootID{9}
	return machine{
		name: "run",
		intro: "The orchestrator's run, on two nodes of which the first is always one step ahead: it has accepted, is ready, or has freed\n" +
			"its stage. The events are of the second.",
		phases: texts(run.Phases()),
		kinds:  anys(run.Events()),
		rows: []row{
			{event: run.RunAsked{Key: runKey}},
			{event: run.PlanMade{Key: runKey, Stages: []run.Placed{runA, runB}}},
			{event: run.PlanMade{Key: runKey}, when: "without a stage"},
			{event: run.PlanFailed{Key: runKey, Fault: why}},
			{event: run.CommitGranted{Key: runKey}},
			{event: run.CommitRefused{Key: runKey, Fault: why}},
			{event: run.StageAccepted{Of: runOf(runB)}},
			{event: run.StageRefused{Of: runOf(runB), Fault: why}},
			{event: run.StageReady{Of: runOf(runB)}},
			{event: run.StageReady{Of: restarted}, when: "of another boot"},
			{event: run.StageFaulted{Of: runOf(runB), Fault: why}},
			{event: run.NodeLost{Key: runKey, Node: runB.Node, Fault: why}},
			{event: run.CompletionAsked{Key: runKey}},
			{event: run.StopAsked{Key: runKey}},
			{event: run.TornDown{Of: runOf(runB)}},
			{event: run.Tick{}, when: due},
		},
		try: func(phase int, r row) (string, []any) {
			s := runIn(run.Phases()[phase])
			var effects []run.Effect
			if r.event != nil {
				now := time.Duration(0)
				if r.when == due {
					now = time.Hour
				}
				s, effects = run.Step(s, r.event.(run.Event), now)
			}
			return s.Phase.String(), anys(effects)
		},
	}
}

func runIn(p run.Phase) run.State {
	s := run.New(run.Settings{})
	for _, on := range []struct {
		from  run.Phase
		event run.Event
	}{
		{run.Idle, run.RunAsked{Key: runKey}},
		{run.Planning, run.PlanMade{Key: runKey, Stages: []run.Placed{runA, runB}}},
		{run.Committing, run.CommitGranted{Key: runKey}},
		{run.Provisioning, run.StageAccepted{Of: runOf(runA)}},
		{run.Provisioning, run.StageAccepted{Of: runOf(runB)}},
		{run.Readying, run.StageReady{Of: runOf(runA)}},
		{run.Readying, run.StageReady{Of: runOf(runB)}},
		{run.Serving, run.StopAsked{Key: runKey}},
		{run.TearingDown, run.TornDown{Of: runOf(runA)}},
		{run.TearingDown, run.TornDown{Of: runOf(runB)}},
	} {
		next, _ := run.Step(s, on.event, 0)
		if next.Phase > p {
			break
		}
		s = next
	}
	return s
}
