package chain

import (
	"context"
	"sync"
	"time"

	"muster/internal/arena"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/shard"
	"muster/internal/wire"
)

// serve takes requests until the chain fails or stops.
func (c *Chain) serve(p infer.Pipe) {
	ctx, end := context.WithCancelCause(context.Background())
	c.watchers.Go(func() {
		select {
		case <-c.failed:
			end(c.fault)
		case <-c.stopping:
			end(fault.New(fault.RunInterrupted, ""))
		}
	})
	c.server = infer.Serve(ctx, p, infer.Config{Recipe: c.cfg.Recipe, Stages: len(c.stages)})
}

// pipe carries the server's records through the outer rings and knows what the
// chain owes.
type pipe struct {
	in     *arena.Producer
	out    *arena.Consumer
	limits wire.Limits
	buf    []byte

	mu    sync.Mutex
	debts []int     // tokens of the records sent and not answered, oldest first
	since time.Time // when the oldest began to be the oldest
}

func newPipe(c *Chain, in *arena.Producer, out *arena.Consumer) *pipe {
	return &pipe{in: in, out: out, limits: shard.Limits(c.cfg.Recipe, c.model.Width, c.model.Vocabulary)}
}

// Send implements infer.Pipe.
func (p *pipe) Send(ctx context.Context, r *wire.Record) error {
	var err error
	if p.buf, err = r.Append(p.buf[:0]); err != nil {
		return err
	}
	p.mu.Lock()
	if len(p.debts) == 0 {
		p.since = time.Now()
	}
	p.debts = append(p.debts, r.TokenCount())
	p.mu.Unlock()
	if err := p.in.Write(ctx, p.buf); err != nil {
		return err
	}
	p.in.Commit()
	return nil
}

// Receive implements infer.Pipe.
func (p *pipe) Receive(ctx context.Context, r *wire.Record) error {
	if err := wire.ReadRecord(p.out.Reader(ctx), p.limits, r); err != nil {
		return err
	}
	p.out.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.debts) > 0 {
		p.debts = p.debts[1:]
		p.since = time.Now()
	}
	return nil
}

// owed says for how long the oldest record is owed, and its tokens.
func (p *pipe) owed() (time.Duration, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.debts) == 0 {
		return 0, 0
	}
	return time.Since(p.since), p.debts[0]
}

func (p *pipe) forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

func (p *pipe) detach() {
	// Only the rings' own bookkeeping can fail here, and the arena ends next.
	_ = p.in.Detach()
	_ = p.out.Detach()
}
