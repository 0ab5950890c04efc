package gguf_test

import (
	"errors"
	"slices"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"

	"pgregory.net/rapid"
)

func TestCutsFollowTheArchitecture(t *testing.T) {
	gemma := func(c randmodel.Config, change func(*model)) *gguf.Model {
		c.Architecture, c.Width, c.FFN, c.Vocabulary = "gemma3", 32, 32, randmodel.LeastVocabulary
		m := modelOf(t, c)
		if change != nil {
			change(m)
		}
		return inspect(t, m.file(t))
	}
	pattern := func(n uint32) func(*model) {
		return func(m *model) { m.set(gguf.Uint32("gemma3.attention.sliding_window_pattern", n)) }
	}
	for name, c := range map[string]struct {
		m    *gguf.Model
		want []int
	}{
		"llama":                      {inspect(t, read(t, generate(t, randmodel.Config{}))), []int{0, 1, 2, 3}},
		"gemma3 of 20":               {gemma(randmodel.Config{Layers: 20}, nil), []int{0, 6, 12, 18, 20}},
		"gemma3 of 12":               {gemma(randmodel.Config{Layers: 12}, nil), []int{0, 6, 12}},
		"gemma3 of 4":                {gemma(randmodel.Config{Layers: 4}, nil), []int{0, 4}},
		"gemma3 that repeats at 4":   {gemma(randmodel.Config{Layers: 12}, pattern(4)), []int{0, 4, 8, 12}},
		"gemma3 of 62, scaled alike": {gemma(randmodel.Config{Layers: 62}, nil), []int{0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 62}},
		"gemma3 of 62, as 27B":       {gemma(randmodel.Config{Layers: 62, HeadDim: 16}, nil), []int{0, 62}},
	} {
		if got := c.m.Cuts(); !slices.Equal(got, c.want) {
			t.Errorf("%s: cuts at %v, want %v", name, got, c.want)
		}
		for start := -1; start <= c.m.Layers+1; start++ {
			for end := -1; end <= c.m.Layers+1; end++ {
				err := c.m.CheckCut(start, end)
				fits := start < end && slices.Contains(c.want, start) && slices.Contains(c.want, end)
				if fits != (err == nil) || err != nil && !errors.Is(err, fault.ModelCutRefused) {
					t.Fatalf("%s: [%d,%d): %v", name, start, end, err)
				}
			}
		}
	}
}

func TestCutsThatLeaveSpecialLayers(t *testing.T) {
	c := randmodel.Config{Architecture: "gemma3", Layers: 68, Width: 32, FFN: 32, HeadDim: 16, Vocabulary: randmodel.LeastVocabulary}
	m := inspect(t, read(t, generate(t, c)))
	if err := m.CheckCut(6, 68); !errors.Is(err, fault.ModelCutRefused) {
		t.Errorf("a stage of 62 layers, which llama.cpp computes otherwise: %v", err)
	}
	if err := m.CheckCut(12, 68); err != nil {
		t.Error(err)
	}
}

func TestPatternPerLayerIsRefused(t *testing.T) {
	m := modelOf(t, randmodel.Config{Architecture: "gemma3", Layers: 6})
	m.set(gguf.Int32s("gemma3.attention.sliding_window_pattern", []int32{1, 1, 1, 1, 1, 0}))
	if _, err := gguf.Inspect(m.file(t)); !errors.Is(err, fault.ModelMetadataInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestEvenSplitCoversTheModel: whatever the model, the ranges follow one
// another, may be cut and differ by at most one step.
func TestEvenSplitCoversTheModel(t *testing.T) {
	models := map[string]*gguf.Model{}
	for name, c := range every {
		models[name] = inspect(t, read(t, generate(t, c)))
	}
	names := []string{"llama", "qwen3", "gemma3"}
	rapid.Check(t, func(t *rapid.T) {
		m := models[rapid.SampledFrom(names).Draw(t, "model")]
		most := len(m.Cuts()) - 1
		workers := rapid.IntRange(-1, most+2).Draw(t, "workers")
		ranges, err := gguf.EvenSplit(m, workers)
		switch {
		case workers < 1:
			if !errors.Is(err, fault.ChainWorkersInvalid) {
				t.Fatalf("%d workers: %v", workers, err)
			}
			return
		case workers > most:
			if !errors.Is(err, fault.ModelLayersTooFew) {
				t.Fatalf("%d workers: %v", workers, err)
			}
			return
		case err != nil || len(ranges) != workers:
			t.Fatalf("%d workers: %v, %v", workers, ranges, err)
		}
		at, least, greatest := 0, m.Layers, 0
		for i, r := range ranges {
			if r.Start != at || m.CheckCut(r.Start, r.End) != nil {
				t.Fatalf("%d workers: %v", workers, ranges)
			}
			at = r.End
			if i < workers-1 || workers == 1 {
				least = min(least, r.Layers())
			}
			greatest = max(greatest, r.Layers())
		}
		step := m.Cuts()[1]
		if at != m.Layers || greatest-least > step {
			t.Fatalf("%d workers: %v", workers, ranges)
		}
	})
}

// TestKeysOfLayersAreCut: arrays with one value a layer become those of the
// stage, others stay whole.
func TestKeysOfLayersAreCut(t *testing.T) {
	m := modelOf(t, randmodel.Config{Layers: 4})
	m.set(gguf.Int32s("llama.attention.head_count_kv", []int32{1, 2, 4, 2}))
	m.set(gguf.Int32s("llama.rope.dimension_sections", []int32{9, 8, 7, 6}))
	m.set(gguf.Int32s("llama.three", []int32{1, 2, 3}))
	m.set(gguf.Int32s("general.four", []int32{1, 2, 3, 4}))
	m.infos = append(m.infos, gguf.Info{Name: "rope_freqs.weight", Dims: []uint64{8}, Type: gguf.F32})
	f := m.file(t)
	model, man := inspect(t, f), manifest(t, f)
	if model.KVHeads != 4 {
		t.Errorf("%d KV heads", model.KVHeads)
	}
	for _, r := range []gguf.Range{{Start: 1, End: 3}, {Start: 3, End: 4}} {
		p, err := gguf.PlanSlice(f, model, r)
		if err != nil {
			t.Fatal(err)
		}
		s := read(t, written(t, p, f, man))
		for key, want := range map[string][]uint64{
			"llama.attention.head_count_kv": ([]uint64{1, 2, 4, 2})[r.Start:r.End],
			"llama.rope.dimension_sections": {9, 8, 7, 6},
			"llama.three":                   {1, 2, 3},
			"general.four":                  {1, 2, 3, 4},
		} {
			kv, _ := s.KV(key)
			if got, ok := kv.Uints(); !ok || !slices.Equal(got, want) {
				t.Errorf("%v: %s is %v, want %v", r, key, got, want)
			}
		}
		if _, ok := s.Tensor("rope_freqs.weight"); !ok {
			t.Errorf("%v: a tensor of every layer is missing", r)
		}
	}
}

func TestCellValuesAreThoseOfTheLayers(t *testing.T) {
	f := read(t, generate(t, randmodel.Config{Layers: 3, Width: 64, Heads: 4, KVHeads: 2})) // heads of 16
	for layers, want := range map[gguf.Range]uint64{{Start: 0, End: 1}: 64, {Start: 1, End: 3}: 128, {Start: 2, End: 4}: 0} {
		if got := gguf.CellValues(f, layers); got != want {
			t.Errorf("layers %v: %d values, want %d", layers, got, want)
		}
	}
}
