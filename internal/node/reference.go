package node

import (
	"context"
	"fmt"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/preset"
	"muster/internal/weights"
)

// reference is what the stage must compute: from the built-in preset where the
// order is of its model, else as the orchestrator gives it to be read; nil where
// the order says that nobody knows.
func (n *node) reference(w *work) (*probe.Reference, error) {
	asked := w.asked.GetProbe()
	if asked == nil {
		return nil, nil
	}
	own, err := preset.BuiltIn(w.ctx)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if own.ProbeDigest == asked.GetDigest() {
		return w.within(own.Probe)
	}
	net, err := n.here()
	if err != nil {
		return nil, err
	}
	r := weights.NewRemote(w.ctx, func(ctx context.Context) (weights.Stream, error) {
		return net.endpoint.OpenStream(ctx, n.cfg.Orchestrator, weights.Protocol)
	}, asked.GetDigest(), []int64{asked.GetSizeBytes()})
	defer r.Close()
	p, err := preset.ReadProbe(r.Part(0), asked.GetSizeBytes(), fmt.Sprintf("the probe of %s", w.asked.GetModel().GetName()))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if p.Digest != asked.GetDigest() {
		return nil, fault.New(fault.StageOrderInvalid, component, "what", "the probe that is given is not the one that it names")
	}
	return w.within(p)
}

// within is the part of a probe that is of the stage's layers.
func (w *work) within(p *preset.Probe) (*probe.Reference, error) {
	if p.Revision != w.manifest.Revision {
		return nil, fault.New(fault.StageOrderInvalid, component, "what", "its probe is of another model than its weights")
	}
	r := w.layers()
	return p.Reference([2]int{r.Start, r.End})
}
