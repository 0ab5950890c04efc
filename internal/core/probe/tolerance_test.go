package probe_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/core/probe"
)

func TestPromptsFitTheRecipe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vocabulary := rapid.IntRange(1, 200000).Draw(t, "vocabulary")
		context := rapid.IntRange(1, 9000).Draw(t, "context")
		chunk := rapid.IntRange(1, context).Draw(t, "chunk")
		prompts := probe.Prompts(vocabulary, context, chunk)
		if len(prompts) != 2 || prompts[0].Name != probe.Short || prompts[1].Name != probe.Long {
			t.Fatalf("prompts are %v", prompts)
		}
		for _, p := range prompts {
			if n := len(p.Tokens); n < 1 || n > context {
				t.Fatalf("the %s one has %d tokens", p.Name, n)
			}
			for _, id := range p.Tokens {
				if id < 0 || int(id) >= vocabulary {
					t.Fatalf("the %s one holds %d", p.Name, id)
				}
			}
		}
		short, long := len(prompts[0].Tokens), len(prompts[1].Tokens)
		if short > long || long > chunk+64 || long <= chunk && context > chunk+32 {
			t.Fatalf("they have %d and %d tokens", short, long)
		}
	})
}

// The ids are part of every probe that was made: they never change.
func TestPromptsAreTheSameEverywhere(t *testing.T) {
	p := probe.Prompts(1280, 512, 512)
	if got, want := p[0].Tokens, []int32{175, 500, 79, 1004, 667, 490, 993, 60, 1219, 1190, 521, 246, 123, 1071, 537, 427}; !slices.Equal(got, want) {
		t.Errorf("the short one is %v", got)
	}
	if len(p[1].Tokens) != 480 || slices.Equal(p[0].Tokens, p[1].Tokens[:16]) {
		t.Errorf("the long one is %v", p[1].Tokens)
	}
}

func TestCompareFindsTheWorstRow(t *testing.T) {
	want := []float32{3, 4, 0, 5, 1, 1, 0, 0}
	for name, c := range map[string]struct {
		got   []float32
		share float64
		d     probe.Difference
	}{
		"the same":                {want, 1, probe.Difference{Cosine: 1}},
		"one float off":           {[]float32{3, 4, 0, 5, 1, 2, 0, 0}, 1, probe.Difference{Cosine: 3 / math.Sqrt(10), Relative: 1}},
		"turned round":            {[]float32{-3, -4, 0, 5, 1, 1, 0, 0}, 1, probe.Difference{Cosine: -1, Relative: 8 / math.Sqrt(12.5)}},
		"zeros made of a row":     {[]float32{0, 0, 0, 5, 1, 1, 0, 0}, 1, probe.Difference{Cosine: 0, Relative: 4 / math.Sqrt(12.5)}},
		"a row made of zeros":     {[]float32{3, 4, 0, 5, 1, 1, 7, 0}, 1, probe.Difference{Cosine: 0, Relative: 7}},
		"longer, same direction":  {[]float32{6, 8, 0, 5, 1, 1, 0, 0}, 1, probe.Difference{Cosine: 1, Relative: 4 / math.Sqrt(12.5)}},
		"the worst is left out":   {[]float32{-3, -4, 0, 5, 1, 1, 0, 0}, 0.75, probe.Difference{Cosine: 1}},
		"the worst is not enough": {[]float32{-3, -4, 0, -5, 1, 1, 0, 0}, 0.75, probe.Difference{Cosine: -1, Relative: 8 / math.Sqrt(12.5)}},
		"one row is always held":  {[]float32{3, 4, 0, 5, 1, 1, 7, 0}, 0.0001, probe.Difference{Cosine: 1}},
	} {
		d := probe.Compare(c.got, want, 2, c.share)
		if math.Abs(d.Cosine-c.d.Cosine) > 1e-12 || math.Abs(d.Relative-c.d.Relative) > 1e-12 {
			t.Errorf("%s: got %+v, want %+v", name, d, c.d)
		}
	}
	if d := probe.Compare(nil, nil, 2, 1); d != probe.None() {
		t.Errorf("no rows: %+v", d)
	}
}

func drifts() *rapid.Generator[[]probe.Drift] {
	difference := rapid.Custom(func(t *rapid.T) probe.Difference {
		return probe.Difference{Cosine: 1 - rapid.Float64Range(0, 0.1).Draw(t, "angle"), Relative: rapid.Float64Range(0, 1).Draw(t, "relative")}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) probe.Drift {
		return probe.Drift{Local: difference.Draw(t, "local"), Carried: difference.Draw(t, "carried")}
	}), 1, 12)
}

// Whatever was measured at the end of a range is within its tolerance, and a
// range that begins earlier tolerates no less than was measured of its last
// part.
func TestWhatWasMeasuredIsTolerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drifts().Draw(t, "drifts")
		share := rapid.SampledFrom([]float64{1, probe.ExpertsShare}).Draw(t, "share")
		logits := rapid.Bool().Draw(t, "logits")
		last := all[len(all)-1]
		for begin := range all {
			got := probe.Tolerate(all, begin, share, logits)
			if got.Share != share || !got.Holds(last.Local) {
				t.Fatalf("from part %d: %+v does not hold %+v", begin, got, last.Local)
			}
			if got.Holds(probe.Difference{Cosine: got.Cosine, Relative: 1.001 * got.Relative}) ||
				got.Cosine > 0 && got.Holds(probe.Difference{Cosine: got.Cosine - 1e-6, Relative: got.Relative}) {
				t.Fatalf("from part %d: %+v holds what is beyond it", begin, got)
			}
		}
	})
}

// The first range of parts alone is measured as it is: by what was carried.
func TestToleranceOfARange(t *testing.T) {
	d := func(local, carried float64) probe.Drift {
		return probe.Drift{
			Local:   probe.Difference{Cosine: 1, Relative: local},
			Carried: probe.Difference{Cosine: 1, Relative: carried},
		}
	}
	for name, c := range map[string]struct {
		drifts []probe.Drift
		begin  int
		want   float64
	}{
		"one part":                         {[]probe.Drift{d(0.01, 0.01), d(0.02, 0.05)}, 1, 4 * 0.02},
		"two parts add up":                 {[]probe.Drift{d(0.01, 0.01), d(0.01, 0.03), d(0.02, 0.05)}, 1, 4 * 0.03},
		"what grew in one, grows":          {[]probe.Drift{d(0.01, 0.01), d(0.01, 0.01), d(0.01, 0.04), d(0.01, 0.09)}, 2, 4 * (0.01*2 + 0.01)},
		"no more than from the beginning":  {[]probe.Drift{d(0.01, 0.01), d(0.01, 0.012), d(0.01, 0.015)}, 1, 4 * 0.015},
		"nothing was measured":             {[]probe.Drift{d(0, 0), d(0, 0)}, 0, 0.02},
		"all from the beginning, measured": {[]probe.Drift{d(0.01, 0.01), d(0.01, 0.04)}, 0, 4 * 0.04},
	} {
		if got := probe.Tolerate(c.drifts, c.begin, 1, false).Relative; math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: got %g, want %g", name, got, c.want)
		}
	}
	if thrown := probe.Tolerate([]probe.Drift{d(0, 0)}, 0, probe.ExpertsShare, true); thrown.Relative < 1 || thrown.Cosine > 0.9 {
		t.Errorf("the logits of experts tolerate %+v", thrown)
	}
}
