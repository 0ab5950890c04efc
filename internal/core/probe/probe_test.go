package probe

import (
	"math"
	"slices"
	"testing"
)

func TestFiguresAreHeldInTheSenseOfTheirCheck(t *testing.T) {
	for name, below := range map[string]struct{ under, at, over bool }{
		Slice: {true, true, false}, Finite: {true, true, false}, Relative: {true, true, false},
		TopToken: {true, true, false}, Repeat: {true, true, false}, Stepwise: {true, true, false},
		Rollback: {true, true, false}, Memory: {true, true, false},
		Cosine: {false, true, true}, Full: {false, true, true},
		Sensitive: {false, false, true}, Decode: {false, false, true}, Prefill: {false, false, true},
	} {
		for i, want := range []bool{below.under, below.at, below.over} {
			if got := Within(name, float64(i), 1); got != want {
				t.Errorf("%s of %d against 1: %v", name, i, got)
			}
		}
		if Within(name, math.NaN(), 1) || Within(name, 1, math.NaN()) {
			t.Errorf("%s takes NaN", name)
		}
	}
	for _, name := range Names() {
		if !Within(name, 0, 1) && !Within(name, 1, 0) {
			t.Errorf("%s has no sense", name)
		}
	}
	if Within("", 1, 1) || Within("other", 0, 1) {
		t.Error("an unknown check is within its limit")
	}
}

func TestAReferenceAsksForMore(t *testing.T) {
	plain := Required(false, true)
	for _, last := range []bool{false, true} {
		more := slices.DeleteFunc(Required(true, last), func(n string) bool { return slices.Contains(plain, n) })
		want := []string{Cosine, Relative}
		if last {
			want = append(want, TopToken)
		}
		if !slices.Equal(more, want) {
			t.Errorf("last %v: a reference adds %v, want %v", last, more, want)
		}
	}
}
