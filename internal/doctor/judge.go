package doctor

import (
	"math"
	"slices"

	"muster/internal/core/probe"
)

// beyond is the figure of what cannot be measured, such as the difference of a
// number to NaN. Figures of checks are finite.
const beyond = math.MaxFloat64

// differ is how far rows of width floats are from those they are held against,
// by a share of them as probe.Compare takes it: beyond, with a cosine of -1,
// where one is not finite or there are more of them.
func differ(got, want []float32, width int, share float64) probe.Difference {
	if len(got) != len(want) || len(want)%width != 0 || notFinite(got)+notFinite(want) > 0 {
		return probe.Difference{Cosine: -1, Relative: beyond}
	}
	return probe.Compare(got, want, width, share)
}

// relative is the difference of the worst row: 0 for the same numbers alone.
func relative(got, want []float32, width int) float64 { return differ(got, want, width, 1).Relative }

// rootMeanSquare of a row.
func rootMeanSquare(row []float32) float64 {
	sum := 0.0
	for _, x := range row {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(max(1, len(row))))
}

// notFinite counts what is NaN or infinite.
func notFinite(x []float32) int {
	n := 0
	for _, v := range x {
		if v-v != 0 {
			n++
		}
	}
	return n
}

// argmax is the first place of the largest value; 0 where there is none.
func argmax(x []float32) int {
	top := 0
	for i, v := range x {
		if v > x[top] {
			top = i
		}
	}
	return top
}

// topDiffers reports whether the most probable token of got is another than
// that of want, by more than rows that are within slack, in root mean squares
// of want, can make of it: two tokens may be as good as equal.
func topDiffers(got, want []float32, slack float64) bool {
	g, w := argmax(got), argmax(want)
	if len(got) != len(want) || len(want) == 0 {
		return true
	}
	lead := float64(want[w]) - float64(want[g])
	return !(lead <= 2*slack*rootMeanSquare(want))
}

// tail is the last rows of x, all of them where it has fewer.
func tail(x []float32, rows, width int) []float32 {
	return x[max(0, len(x)-rows*width):]
}

// median of figures, 0 of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
