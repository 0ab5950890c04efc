package node

import (
	"context"

	"muster/internal/fault"
	"muster/internal/shard"
	"muster/internal/wire"
)

// patient is the loaded shard of a stage as a doctor examines it: through the
// rings by which it will serve, before its edges are joined.
type patient struct {
	w      *work
	limits wire.Limits
	sent   []byte
}

func newPatient(w *work) *patient {
	return &patient{w: w, limits: shard.Limits(w.asked.GetRecipe().Wire(), w.model.Width, w.model.Vocabulary)}
}

// Step sends one record into the worker's ring and reads what comes out.
func (p *patient) Step(ctx context.Context, in *wire.Record) (*wire.Record, error) {
	c := p.w.crew
	var err error
	if p.sent, err = in.Append(p.sent[:0]); err != nil {
		return nil, err
	}
	if err := c.feed.Write(ctx, p.sent); err != nil {
		return nil, c.cause(err)
	}
	c.feed.Commit()
	out := &wire.Record{}
	if err := wire.ReadRecord(c.drain.Reader(ctx), p.limits, out); err != nil {
		return nil, c.cause(err)
	}
	c.drain.Done()
	return out, nil
}

// Stats are the figures of the worker's process.
func (p *patient) Stats(ctx context.Context) (wire.Stats, error) {
	reply, err := p.w.crew.worker.Call(ctx, wire.Request{Op: wire.OpStats}, nil)
	if err != nil {
		return wire.Stats{}, err
	}
	if reply.Stats == nil {
		return wire.Stats{}, fault.New(fault.WorkerProtocolBroken, workerName, "what", "stats were answered without figures")
	}
	return *reply.Stats, nil
}
