package doctor

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/core/probe"
)

const rowWidth = 4

// rows draws rows of sound numbers, each with something in it.
func rows(t *rapid.T, name string) []float32 {
	n := rapid.IntRange(1, 5).Draw(t, name+" rows")
	x := rapid.SliceOfN(rapid.Float32Range(-100, 100), n*rowWidth, n*rowWidth).Draw(t, name)
	for i := 0; i < len(x); i += rowWidth {
		x[i] = 1
	}
	return x
}

func TestTheSameRowsAreNotApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rows(t, "x")
		if r, c := relative(x, x, rowWidth), differ(x, x, rowWidth, 1).Cosine; r != 0 || c < 1-1e-9 || topDiffers(x, x, 0) {
			t.Fatalf("relative %v, cosine %v", r, c)
		}
	})
}

// A value that is off by d is d root mean squares of its own row away, whatever
// the other rows are.
func TestRelativeIsOfTheWorstRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rows(t, "want")
		at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
		d := rapid.Float32Range(0.5, 50).Draw(t, "d")
		got := slices.Clone(want)
		got[at] += d
		row := want[at/rowWidth*rowWidth:][:rowWidth]
		exact := math.Abs(float64(got[at])-float64(want[at])) / rootMeanSquare(row)
		if r := relative(got, want, rowWidth); math.Abs(r-exact) > 1e-9*exact {
			t.Fatalf("relative %v, want %v", r, exact)
		}
		if differ(got, want, rowWidth, 1).Cosine > 1 {
			t.Fatal("a cosine over 1")
		}
	})
}

func TestScaleChangesBothRowsAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, got := rows(t, "want"), rows(t, "got")
		if len(want) != len(got) {
			t.Skip("other lengths")
		}
		const k = 8 // a power of two: exact
		times := func(x []float32) []float32 {
			y := slices.Clone(x)
			for i := range y {
				y[i] *= k
			}
			return y
		}
		if a, b := relative(got, want, rowWidth), relative(times(got), times(want), rowWidth); math.Abs(a-b) > 1e-9*(1+a) {
			t.Fatalf("relative %v, scaled %v", a, b)
		}
		if a, b := differ(got, want, rowWidth, 1).Cosine, differ(times(got), want, rowWidth, 1).Cosine; math.Abs(a-b) > 1e-9 {
			t.Fatalf("cosine %v, scaled %v", a, b)
		}
	})
}

// Whatever comes, figures are finite and a broken number never passes.
func TestFiguresAreFinite(t *testing.T) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}
	rapid.Check(t, func(t *rapid.T) {
		floats := rapid.SliceOfN(rapid.Float32(), 0, 12)
		got, want := floats.Draw(t, "got"), floats.Draw(t, "want")
		if len(got) > 0 && rapid.Bool().Draw(t, "break it") {
			got[rapid.IntRange(0, len(got)-1).Draw(t, "at")] = rapid.SampledFrom(odd).Draw(t, "odd")
		}
		r, c := relative(got, want, rowWidth), differ(got, want, rowWidth, 1).Cosine
		if math.IsNaN(r+c) || math.IsInf(r, 0) || c < -1 || c > 1 {
			t.Fatalf("relative %v, cosine %v", r, c)
		}
		if notFinite(got) > 0 && (r < beyond || c > -1) {
			t.Fatalf("a broken number gives %v and %v", r, c)
		}
	})
}

func TestTopTokensMayBeAsGoodAsEqual(t *testing.T) {
	want := []float32{0, 3, 2.9, -1} // root mean square 2.14
	for name, c := range map[string]struct {
		got   []float32
		slack float64
		want  bool
	}{
		"the same":                   {[]float32{0, 3, 2.9, -1}, 0, false},
		"nearly equal, no slack":     {[]float32{0, 2.9, 3, -1}, 0, true},
		"nearly equal, within slack": {[]float32{0, 2.9, 3, -1}, 0.05, false},
		"another token":              {[]float32{4, 3, 2.9, -1}, 0.05, true},
		"fewer":                      {[]float32{0, 3}, 1, true},
		"NaN at the top":             {[]float32{0, float32(math.NaN()), 2.9, -1}, 0, true},
	} {
		if got := topDiffers(c.got, want, c.slack); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMemoryOfAWholeContextFollowsFromItsGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		first, last memory
		want        uint64
	}{
		"whole":           {memory{100, 10}, memory{2560, 100}, 100},
		"even growth":     {memory{100, 10}, memory{1000, 40}, 100}, // 3 groups of 10, and 6 more
		"no growth":       {memory{100, 20}, memory{1000, 20}, 20},
		"less":            {memory{100, 30}, memory{1000, 20}, 20},
		"the same groups": {memory{100, 10}, memory{200, 20}, 20},
		"nothing known":   {memory{}, memory{}, 0},
	} {
		if got := c.first.concluded(c.last, 2560); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestEveryCheckHasItsWords(t *testing.T) {
	for _, name := range probe.Names() {
		c := probe.Check{Name: name, Got: 7, Limit: 3}
		if says := Says(c); says == name+": 7 against 3" {
			t.Errorf("%s is put as %q", name, says)
		}
		if len(Try(name)) < 30 {
			t.Errorf("%s: nothing to try", name)
		}
	}
	for x, want := range map[float64]string{0: "0", 3: "3", 1: "1", 0.99997: "0.9999700", 0.25: "0.25", 0.0012345: "0.001234", beyond: "beyond measure", 4096: "4096"} {
		if got := number(x); got != want {
			t.Errorf("%v is spelled %s, want %s", x, got, want)
		}
	}
}
