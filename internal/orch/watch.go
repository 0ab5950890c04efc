package orch

import (
	"context"
	"sync"
	"time"

	"muster/internal/core/run"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// owingPipe is a chain that knows what it owes.
type owingPipe struct {
	*edge.Pipe

	mu    sync.Mutex
	debts []int     // tokens of the records sent and not answered, oldest first
	since time.Time // when the oldest began to be the oldest
	sent  uint64    // records
}

// Send implements infer.Pipe.
func (p *owingPipe) Send(ctx context.Context, r *wire.Record) error {
	p.mu.Lock()
	if len(p.debts) == 0 {
		p.since = time.Now()
	}
	p.debts = append(p.debts, r.TokenCount())
	p.mu.Unlock()
	if err := p.Pipe.Send(ctx, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	return nil
}

// Receive implements infer.Pipe.
func (p *owingPipe) Receive(ctx context.Context, r *wire.Record) error {
	if err := p.Pipe.Receive(ctx, r); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.debts) > 0 {
		p.debts = p.debts[1:]
		p.since = time.Now()
	}
	return nil
}

// debt is what a chain owes: since when, of how many tokens, and how many
// records were sent in all.
type debt struct {
	waited time.Duration
	tokens int
	sent   uint64
}

// owed is the oldest debt; waited is 0 where there is none.
func (p *owingPipe) owed() debt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.debts) == 0 {
		return debt{}
	}
	return debt{waited: time.Since(p.since), tokens: p.debts[0], sent: p.sent}
}

// watchStep ends a run that is stuck with healthy sockets, naming the stage
// that owes.
func (m *mailbox) watchStep() {
	if m.lead == nil || m.lead.session == nil || m.run.Phase != run.Serving {
		return
	}
	l := m.lead
	d := l.session.pipe.owed()
	if d.waited < m.o.cfg.Step.Floor || d.waited < m.o.cfg.Step.Floor+time.Duration(m.o.cfg.Step.Factor)*measured(l.stages, d.tokens) {
		return
	}
	figures := make([]*controlpb.StageFigures, len(l.stages))
	for i, s := range l.stages {
		if told := m.nodes[s.Node].known(s.Boot); told != nil && controlpb.Run(told.figures.GetRunId()) == l.key.Run {
			figures[i] = told.figures
		}
	}
	at, code := owing(figures, d.sent)
	s := l.stages[at]
	f := fault.New(code, component, "name", s.Name, "tokens", d.tokens, "waited", d.waited.Round(time.Millisecond))
	f.Node = s.Name
	m.stepRun(run.StageFaulted{Of: l.of(s), Fault: f})
}

// owing is the stage that holds up a chain into which so many records were sent,
// by what the stages tell of their edges: the last that has taken in more than
// it gave out. Where none has, records are under way between two stages that do
// not arrive, and it is the one they do not arrive at. A stage that tells
// nothing is the one, if no other is.
func owing(figures []*controlpb.StageFigures, sent uint64) (int, fault.Code) {
	for i := len(figures) - 1; i >= 0; i-- {
		if f := figures[i]; f != nil && (f.GetOwes() || f.GetIn().GetRecords() > f.GetOut().GetRecords()) {
			return i, fault.RunStepOverdue
		}
	}
	silent := -1
	for i, f := range figures {
		if f == nil {
			silent = i
			continue
		}
		if silent < 0 && f.GetIn().GetRecords() < sent {
			return i, fault.RunEdgeStalled
		}
		sent = f.GetOut().GetRecords()
	}
	return max(silent, 0), fault.RunStepOverdue
}

// measured is how long a batch of tokens takes through all stages, by the
// trial forwards of their loading.
func measured(stages []*placed, tokens int) time.Duration {
	var micros int64
	for _, s := range stages {
		each := s.ready.GetTokenMicros()
		if n := int64(s.ready.GetChunkTokens()); tokens > 1 && n > 0 {
			each = s.ready.GetChunkMicros() / n
		}
		micros += each * int64(tokens)
	}
	return time.Duration(micros) * time.Microsecond
}
