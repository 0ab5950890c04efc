package gguf

import (
	"fmt"
	"slices"

	"muster/internal/fault"
)

// Range is the layers [Start,End) of a model.
type Range struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Layers is how many layers are in the range.
func (r Range) Layers() int { return r.End - r.Start }

const keyPattern = "attention.sliding_window_pattern"

// cutting finds where the model may be cut.
func (in *inspector) cutting() error {
	m := in.m
	m.period = in.arch.period
	if in.arch.period > 1 {
		period, err := in.number(keyPattern, in.arch.period, 2, mostLayers)
		if err != nil {
			return err
		}
		m.period = period
	}
	if m.Width/m.Heads != m.KeyLength {
		m.special = in.arch.special
	}
	return nil
}

// Cuts returns the layers at which the model may be cut, from 0 to Layers.
func (m *Model) Cuts() []int {
	cuts := []int{0}
	for at := m.period; at < m.Layers && m.Layers != m.special; at += m.period {
		cuts = append(cuts, at)
	}
	return append(cuts, m.Layers)
}

// CheckCut says whether layers [start,end) can be a stage: model.cut_refused
// otherwise.
func (m *Model) CheckCut(start, end int) error {
	refuse := func(layer int, rule string) error {
		return fault.New(fault.ModelCutRefused, component, "architecture", m.Architecture, "layer", layer, "rule", rule)
	}
	if end > m.Layers || end <= start {
		return refuse(end, fmt.Sprintf("layers above the cut before it (%d) and below %d, rising", start, m.Layers))
	}
	if start < 0 {
		return refuse(start, "0 or above")
	}
	for _, at := range []int{start, end} {
		switch {
		case at == 0 || at == m.Layers:
		case m.special == m.Layers || m.special == end-start:
			return refuse(at, fmt.Sprintf("no layer that leaves or makes %d layers: llama.cpp computes such models otherwise", m.special))
		case at%m.period != 0:
			return refuse(at, fmt.Sprintf("multiples of %d, the period of its layers", m.period))
		}
	}
	return nil
}

// SplitAt cuts the model at layers. Faults: model.cut_refused.
func SplitAt(m *Model, cuts []int) ([]Range, error) {
	ranges := make([]Range, 0, len(cuts)+1)
	at := 0
	for _, cut := range append(slices.Clone(cuts), m.Layers) {
		if err := m.CheckCut(at, cut); err != nil {
			return nil, err
		}
		ranges = append(ranges, Range{at, cut})
		at = cut
	}
	return ranges, nil
}

// EvenSplit cuts the model for so many workers into ranges of nearly equal
// length, none empty, longer ones first. Faults: chain.workers_invalid below
// 1, model.layers_too_few where the model has fewer places to cut.
func EvenSplit(m *Model, workers int) ([]Range, error) {
	cuts := m.Cuts()
	most := len(cuts) - 1
	if workers < 1 {
		return nil, fault.New(fault.ChainWorkersInvalid, component, "workers", workers, "most", most)
	}
	if workers > most {
		return nil, fault.New(fault.ModelLayersTooFew, component, "workers", workers, "most", most)
	}
	ranges := make([]Range, 0, workers)
	at := 0
	for i := range workers {
		next := at + most/workers
		if i < most%workers {
			next++
		}
		ranges = append(ranges, Range{cuts[at], cuts[next]})
		at = next
	}
	return ranges, nil
}

// KVBytes is what the KV cache of so many layers takes for a context of so
// many tokens. It is an upper bound where layers see a window only or have
// different numbers of heads.
func (m *Model) KVBytes(layers, context, bytesPerValue int) uint64 {
	return uint64(layers) * uint64(context) * uint64(m.KVHeads) * uint64(m.KeyLength+m.ValueLength) * uint64(bytesPerValue)
}

// CellValues is how many keys and values a token has in the KV cache of layers
// r, by the shapes of the tensors that make them; 0 where these are not there.
func CellValues(f *File, r Range) uint64 {
	var n uint64
	for layer := r.Start; layer < r.End; layer++ {
		for _, kind := range []string{"attn_k", "attn_v"} {
			t, ok := f.Tensor(fmt.Sprintf("%s%d.%s.weight", layerPrefix, layer, kind))
			if !ok || len(t.Dims) != 2 {
				return 0
			}
			n += t.Dims[1]
		}
	}
	return n
}
