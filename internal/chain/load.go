package chain

import (
	"context"

	"golang.org/x/sync/errgroup"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/wire"
)

// load hands every worker its slice, all at once, and reads the vocabulary.
func (c *Chain) load(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range c.parts {
		p := &c.parts[i]
		g.Go(func() error {
			if p.stage < 0 {
				return c.loadVocabulary(ctx, p)
			}
			return c.loadStage(ctx, p)
		})
	}
	return g.Wait()
}

func (c *Chain) loadStage(ctx context.Context, p *part) error {
	st := c.stages[p.stage]
	req := p.request(c.cfg, fdStageFiles)
	reply, err := st.worker.CallMoving(ctx, req, func(w wire.Progress) {
		c.cfg.Tell(event.WeightsProgressed{Worker: p.name, Done: w.Done})
	})
	if err != nil {
		return err
	}
	if reply.Loaded == nil {
		return fault.New(fault.WorkerProtocolBroken, p.name, "what", "load was answered without figures")
	}
	st.loaded = *reply.Loaded
	c.cfg.Tell(event.StageLoaded{
		Worker: p.name, Layers: pair(p.layers),
		ResidentBytes: st.loaded.ResidentBytes, TokenMicros: st.loaded.TokenMicros, Threads: st.loaded.Threads,
	})
	return nil
}

func (c *Chain) loadVocabulary(ctx context.Context, p *part) error {
	if _, err := c.tokens.CallMoving(ctx, p.request(c.cfg, fdFiles), func(wire.Progress) {}); err != nil {
		return err
	}
	reply, err := c.tokens.Call(ctx, wire.Request{Op: wire.OpVocab}, nil)
	if err != nil {
		return err
	}
	if reply.Vocab == nil {
		return fault.New(fault.WorkerProtocolBroken, p.name, "what", "no vocabulary was told")
	}
	c.words = infer.NewWords(reply.Vocab)
	return nil
}
