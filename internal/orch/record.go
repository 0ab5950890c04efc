package orch

import (
	"context"
	"encoding/json"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/plan"
	"muster/internal/core/run"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// runRecorded: the store has the run, or will not have it.
type runRecorded struct {
	key run.Key
	err error
}

// Writes of a run's record: how often and how long.
const (
	recordTries = 3
	recordPause = 200 * time.Millisecond
)

// record writes the run that the gate has granted to the store before anything
// is asked of a node, and its outcome once it has one.
func (m *mailbox) record(granted id.RunID) {
	l := m.lead
	if l == nil || l.key.Run != granted {
		m.then(gate.RunEnded{Run: granted})
		return
	}
	stages, err := json.Marshal(l.plans())
	recipe, err2 := json.Marshal(m.o.model.recipe)
	if err != nil || err2 != nil {
		m.then(runRecorded{key: l.key, err: fault.New(fault.InternalUnexpected, component)})
		return
	}
	r := store.Run{
		ID: granted, Pool: m.pool.Name, Epoch: m.pool.Epoch, Model: m.o.model.name,
		Recipe: recipe, Stages: stages, Started: time.Now(),
	}
	m.o.tasks.Go(func() { m.o.recordRun(l, r) })
}

func (l *lead) plans() []plan.Stage {
	all := make([]plan.Stage, len(l.stages))
	for i, s := range l.stages {
		all[i] = s.Stage
	}
	return all
}

func (o *Orch) recordRun(l *lead, r store.Run) {
	err := o.store.BeginRun(o.ctx, r)
	o.post(runRecorded{key: l.key, err: err})
	if err != nil {
		return
	}
	var end store.Outcome
	select {
	case end = <-l.outcome:
	case <-o.ctx.Done():
		select {
		case end = <-l.outcome:
		default:
			return // the next start finds it unfinished
		}
	}
	for range recordTries {
		if err := o.store.EndRun(context.WithoutCancel(o.ctx), r.ID, end); err == nil {
			return
		}
		sleep(context.Background(), recordPause)
	}
}

func (m *mailbox) hearRecorded(r runRecorded) {
	if r.err == nil {
		m.stepRun(run.CommitGranted{Key: r.key})
		return
	}
	m.stepRun(run.CommitRefused{Key: r.key, Fault: fault.From(r.err)})
	m.stepGate(gate.RunEnded{Run: r.key.Run})
}
