// Package reference computes a model's reference probe, layer by layer: a
// machine that has the memory of one part of it, with the head for the last,
// can do so.
//
//	part        [0,1)          [1,2)               [L-1,L)
//	         ids ──> rows ──> ... ──> rows ──> ... ──> logits     the reference
//	         ids ──> rows'──> ... ──> rows'──> ... ──> logits'    carried, other batches
//	                  stored rows ──> rows"                       local, each part
//
// A part is the smallest range of layers that the architecture allows. One rig
// at a time holds it. Through each go the reference itself, in single precision,
// and the same prompts in other batches and token by token, both as they come
// from the part before and from the reference as it is stored. How far they end
// up from one another is the part's drift, of which a doctor's tolerance is made
// (docs/design/0006).
package reference

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"muster/internal/core/probe"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/preset"
	"muster/internal/rig"
)

// Facts are those of the probe of a model, but for the drifts: its parts are
// the smallest ranges that can be cut, its prompts follow from vocabulary,
// context and chunk. cfg is that of the rigs; its name, layers and events are
// set by Make.
func Facts(m *gguf.Model, cfg rig.Config) preset.Facts {
	share := 1.0
	if m.Experts > 0 {
		share = probe.ExpertsShare
	}
	return preset.Facts{
		Revision: cfg.Manifest.Revision, Recipe: cfg.Recipe, Width: m.Width, Vocabulary: m.Vocabulary,
		Borders: m.Cuts(), Prompts: probe.Prompts(m.Vocabulary, cfg.Recipe.Context, cfg.Recipe.Chunk), Share: share,
	}
}

// Make computes the reference whose facts w was begun with, and writes it.
// cfg.Tell is told event.ReferenceProgressed alone. On a fault what is written
// is of no use. Faults: those of rig.Start and Step, of w, and
// preset.numbers_invalid.
func Make(ctx context.Context, cfg rig.Config, w *preset.ProbeWriter) error {
	m := &maker{cfg: cfg, facts: w.Facts(), progress: newProgress(cfg.Tell, w.Facts())}
	m.cfg.Name, m.cfg.Tell = "reference", func(event.Event) {}
	for range m.facts.Prompts {
		m.reference = append(m.reference, nil)
		m.carried = append(m.carried, make([][]float32, len(kinds)))
	}
	for i := range m.facts.Borders[1:] {
		layers := gguf.Range{Start: m.facts.Borders[i], End: m.facts.Borders[i+1]}
		drift, err := m.part(ctx, layers)
		if errors.Is(err, fault.StageRowsNotFinite) {
			return notFinite(layers).Because(err)
		}
		if err != nil {
			return err
		}
		if err := w.Part(m.reference, drift); err != nil {
			return err
		}
	}
	return w.Finish()
}

type maker struct {
	cfg      rig.Config
	facts    preset.Facts
	progress *progress

	reference [][]float32   // by prompt: rows behind the last part, in the end logits
	carried   [][][]float32 // by prompt and kind, likewise
}

// part sends everything through a part and moves reference and carried on.
func (m *maker) part(ctx context.Context, layers gguf.Range) (probe.Drift, error) {
	cfg := m.cfg
	cfg.Layers = layers
	m.progress.layers = layers
	r, err := rig.Start(ctx, cfg)
	if err != nil {
		return probe.Drift{}, err
	}
	defer r.Close()
	drift := probe.Drift{Local: probe.None(), Carried: probe.None()}
	t := &trip{rig: r, layers: layers, facts: &m.facts, passed: m.progress.passed}
	for p, prompt := range m.facts.Prompts {
		t.ids = prompt.Tokens
		if err := m.prompt(ctx, t, p, &drift); err != nil {
			return drift, err
		}
	}
	return drift, nil
}

// prompt sends one prompt through the part that t is of.
func (m *maker) prompt(ctx context.Context, t *trip, p int, drift *probe.Drift) error {
	before := m.reference[p]
	end, err := t.through(ctx, before, t.batches(whole))
	if err != nil {
		return err
	}
	m.reference[p] = end
	stored := preset.Stored(end, t.width())
	for k, kind := range kinds {
		if m.carried[p][k], err = t.through(ctx, m.carried[p][k], t.batches(kind)); err != nil {
			return err
		}
		drift.Carried = drift.Carried.Worse(t.apart(m.carried[p][k], stored))
	}
	if before == nil { // ids are stored as they are: carried and local are the same
		drift.Local = drift.Local.Worse(drift.Carried).Worse(t.apart(end, stored))
		return nil
	}
	before = preset.Stored(before, m.facts.Width)
	for _, kind := range append([]kind{whole}, kinds...) {
		out, err := t.through(ctx, before, t.batches(kind))
		if err != nil {
			return err
		}
		drift.Local = drift.Local.Worse(t.apart(out, stored))
	}
	return nil
}

// progress tells how much of the whole work is done, at most ten times a
// second.
type progress struct {
	tell        func(event.Event)
	layers      gguf.Range
	done, total int // tokens through parts
	last        time.Time
}

func newProgress(tell func(event.Event), f preset.Facts) *progress {
	const first, later = 1 + 2, 1 + 2 + 3 // passes: the reference, carried, local
	tokens, parts := 0, len(f.Borders)-1
	for _, p := range f.Prompts {
		tokens += len(p.Tokens)
	}
	return &progress{tell: tell, total: tokens * (first + later*(parts-1))}
}

const tellEvery = 100 * time.Millisecond

func (p *progress) passed(tokens int) {
	p.done += tokens
	if now := time.Now(); now.Sub(p.last) >= tellEvery {
		p.last = now
		p.tell(event.ReferenceProgressed{Layers: [2]int{p.layers.Start, p.layers.End}, Done: p.done, Total: p.total})
	}
}

// finite refuses rows with numbers that are none, or that leave no room for
// another rounding.
func finite(rows []float32, layers gguf.Range) error {
	for _, v := range rows {
		if !(math.Abs(float64(v)) < preset.Most) {
			return notFinite(layers)
		}
	}
	return nil
}

func notFinite(layers gguf.Range) *fault.Fault {
	return fault.New(fault.PresetNumbersInvalid, "reference", "layers", fmt.Sprintf("%d:%d", layers.Start, layers.End))
}
