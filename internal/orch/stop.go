package orch

import (
	"context"
	"sync"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Stop lets the answers that run end, within Config.Drain, while new requests are
// refused. Then it ends the run that is under way, waits until it is torn down, and forms
// no other until Form. With leave it then tells every node to leave.
func (o *Orch) Stop(ctx context.Context, leave bool) error {
	o.drain(ctx)
	if err := o.endRun(ctx, func(m *mailbox) {
		m.wanted = false
		m.stepRun(run.StopAsked{Key: m.run.Key})
	}); err != nil || !leave {
		return err
	}
	return o.dismiss(ctx)
}

// Complete lets the answers that run end, as Stop does, ends the run that is
// serving as one that did its work, waits until it is torn down, and forms no other until Form.
func (o *Orch) Complete(ctx context.Context) error {
	o.drain(ctx)
	return o.endRun(ctx, func(m *mailbox) {
		m.wanted = false
		m.stepRun(run.CompletionAsked{Key: m.run.Key})
		m.stepRun(run.StopAsked{Key: m.run.Key}) // one that does not serve yet
	})
}

// Form has runs formed again, after Stop, Complete, Policy.Once or an aborted
// formation.
func (o *Orch) Form(ctx context.Context) error {
	return o.ask(ctx, func(m *mailbox) {
		m.wanted, m.hold.until = true, 0
		m.stepGate(gate.FormationAsked{})
		m.form()
	})
}

// endRun has a run ended and waits until nothing of it is left.
func (o *Orch) endRun(ctx context.Context, end func(*mailbox)) error {
	over := make(chan struct{})
	if err := o.ask(ctx, func(m *mailbox) {
		end(m)
		m.overs = append(m.overs, over)
		m.tellOver()
	}); err != nil {
		return o.unlessEnded(err)
	}
	select {
	case <-over:
		return nil
	case <-o.ctx.Done():
		return nil
	case <-ctx.Done():
		return givenUp(ctx)
	}
}

// tellOver answers those who wait for the end of a run.
func (m *mailbox) tellOver() {
	if m.run.Phase != run.Idle && m.run.Phase != run.Done {
		return
	}
	for _, over := range m.overs {
		close(over)
	}
	m.overs = nil
}

// unlessEnded passes an error on, but for that of an orchestrator that has
// ended: its run is over.
func (o *Orch) unlessEnded(err error) error {
	if ended(o.ctx) {
		return nil
	}
	return err
}

// dismiss tells all nodes to leave; one that does not hear is seen to die.
func (o *Orch) dismiss(ctx context.Context) error {
	var nodes []id.NodeID
	if err := o.ask(ctx, func(m *mailbox) {
		for of, b := range m.holders() {
			if m.living(b).acknowledged() {
				nodes = append(nodes, of)
			}
		}
	}); err != nil {
		return o.unlessEnded(err)
	}
	var calls sync.WaitGroup
	for _, n := range nodes {
		calls.Go(func() {
			_, _ = o.order(ctx, n, &controlpb.Request{Body: &controlpb.Request_Leave{
				Leave: &controlpb.Leave{Reason: "the orchestrator stops the pool"},
			}})
		})
	}
	calls.Wait()
	return nil
}
