package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/weights"
	"muster/internal/wire/controlpb"
)

const (
	weightsProtocol = weights.Protocol
	tellEvery       = 100 * time.Millisecond // progress
)

// fetch makes the slices of the stage: from a copy on this machine where there
// is one with the right bytes, from the built-in model, or from the
// orchestrator. Every tensor is compared with the manifest on its way.
func (n *node) fetch(w *work) (stage.Event, error) {
	man, err := manifestOf(w.asked.GetModel())
	if err != nil {
		return nil, err
	}
	cache, err := weights.OpenCache(n.cacheFolder())
	if err != nil {
		return nil, err
	}
	var changed error
	for _, source := range []func(*work, *gguf.Manifest) (*gguf.File, func(), error){n.local, n.builtIn, n.remote} {
		f, done, err := source(w, man)
		if err != nil {
			return nil, err
		}
		if f == nil {
			continue // not there
		}
		err = n.cut(w, cache, f, man)
		done()
		if err == nil {
			return stage.WeightsReady{Order: w.order}, nil
		}
		if !errors.Is(err, fault.GGUFDataChanged) {
			return nil, err
		}
		changed = err
		w.closeSlices() // this copy is another model's, or damaged: the next source
	}
	return nil, changed
}

func (n *node) cacheFolder() string {
	if n.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(n.cfg.DataDir, "cache")
}

func manifestOf(m *controlpb.ModelSource) (*gguf.Manifest, error) {
	man := &gguf.Manifest{}
	if err := json.Unmarshal(m.GetManifestJson(), man); err != nil {
		return nil, fault.New(fault.StageOrderInvalid, component, "what", "its manifest cannot be read").Because(err)
	}
	if man.Revision != m.GetRevision() {
		return nil, fault.New(fault.StageOrderInvalid, component, "what", "its manifest is of another revision")
	}
	return man, nil
}

// local opens the model where the order says that it lies on this machine. A
// copy that is not there, or is another model, is none.
func (n *node) local(w *work, man *gguf.Manifest) (*gguf.File, func(), error) {
	parts := w.asked.GetModel().GetParts()
	if parts[0].GetPath() == "" {
		return nil, nil, nil
	}
	f, err := gguf.Open(parts[0].GetPath())
	if err != nil || len(f.Parts) != len(parts) || !man.Describes(f) {
		if err == nil {
			_ = f.Close()
		}
		return nil, nil, nil
	}
	return f, func() { _ = f.Close() }, nil
}

// builtIn is the model in this program, where the order is of it.
func (n *node) builtIn(w *work, man *gguf.Manifest) (*gguf.File, func(), error) {
	f, own, err := tale(w.ctx)
	if err != nil || own.Revision != man.Revision {
		return nil, nil, err
	}
	return f, func() {}, nil
}

// remote reads the model from the orchestrator.
func (n *node) remote(w *work, _ *gguf.Manifest) (*gguf.File, func(), error) {
	net, err := n.here()
	if err != nil {
		return nil, nil, err
	}
	m := w.asked.GetModel()
	var sizes []int64
	for _, p := range m.GetParts() {
		sizes = append(sizes, p.GetSizeBytes())
	}
	r := weights.NewRemote(w.ctx, func(ctx context.Context) (weights.Stream, error) {
		return net.endpoint.OpenStream(ctx, n.cfg.Orchestrator, weights.Protocol)
	}, m.GetRevision(), sizes)
	var parts []gguf.Source
	for i, size := range sizes {
		parts = append(parts, gguf.Source{In: r.Part(i), Size: size, Name: fmt.Sprintf("%s, part %d", m.GetName(), i+1)})
	}
	f, err := gguf.ReadParts(parts)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return f, r.Close, nil
}

// cut makes the slice of the layers, and the embedding's for the first stage.
func (n *node) cut(w *work, cache *weights.Cache, f *gguf.File, man *gguf.Manifest) error {
	model, err := gguf.Inspect(f)
	if err != nil {
		return err
	}
	w.model, w.manifest = model, man
	r := w.layers()
	if (r.Start == 0) != w.first() || (r.End == model.Layers) != w.last() {
		return fault.New(fault.StageOrderInvalid, component, "what",
			fmt.Sprintf("layers %d to %d of %d are not stage %d of %d", r.Start, r.End-1, model.Layers, w.asked.GetStage()+1, w.asked.GetStages()))
	}
	w.cells = gguf.CellValues(f, r)
	plan, err := gguf.PlanSlice(f, model, r)
	if err != nil {
		return err
	}
	p := &fetched{n: n, w: w, total: plan.Size}
	var embedding *gguf.SlicePlan
	if w.first() {
		if embedding, err = gguf.PlanEmbedding(f, model); err != nil {
			return err
		}
		p.total += embedding.Size
	}
	if w.body, err = p.slice(cache, plan, f, man, fmt.Sprintf("layers %d to %d", r.Start, r.End-1)); err != nil || embedding == nil {
		return err
	}
	p.before = plan.Size
	w.embedding, err = p.slice(cache, embedding, f, man, "embedding")
	return err
}

// fetched tells how far the slices of a stage are.
type fetched struct {
	n             *node
	w             *work
	before, total int64 // bytes
	last          time.Time
}

func (p *fetched) slice(cache *weights.Cache, plan *gguf.SlicePlan, f *gguf.File, man *gguf.Manifest, what string) (*handed, error) {
	s, err := cache.Slice(p.w.ctx, plan, f, man, func(done, total int64) { p.tell(done, total, what) })
	if err != nil {
		return nil, err
	}
	p.n.cfg.Tell(event.SliceReady{Slice: what, Bytes: s.Size(), Cached: !s.Made, Replaced: s.Replaced})
	return &handed{Slice: s, plan: plan}, nil
}

func (p *fetched) tell(done, total int64, what string) {
	if now := time.Now(); now.Sub(p.last) >= tellEvery {
		p.last = now
		p.n.tell(worked{stage.WeightsProgressed{Order: p.w.order, Done: uint64(p.before + done)}})
		p.n.cfg.Tell(event.SliceProgressed{Slice: what, Done: done, Total: total})
		p.n.progressed(p.w, stage.Fetching, p.before+done, p.total, what)
	}
}

func (w *work) closeSlices() {
	for _, s := range w.slices() {
		_ = s.Close() // it was only read
	}
	w.body, w.embedding = nil, nil
}

// slices are the files that there are.
func (w *work) slices() []*handed {
	return slices.DeleteFunc([]*handed{w.body, w.embedding}, func(s *handed) bool { return s == nil })
}
