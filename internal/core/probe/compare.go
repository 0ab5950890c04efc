package probe

import (
	"math"
	"slices"
)

// Difference is how far the rows of a prompt are from the reference's.
type Difference struct {
	Cosine   float64 `json:"cosine"`   // of a row to the reference's
	Relative float64 `json:"relative"` // largest difference of two floats of a row, in root mean squares of the reference's
}

// None is the difference of rows that are the same.
func None() Difference { return Difference{Cosine: 1} }

// Compare compares rows of width floats, of which there are as many in both and
// whose floats are finite. Each figure is that of the worst row, after the worst
// have been left out of which share says that they need not be held to
// anything: it is above 0, and 1 leaves out none. Rows of which one is all
// zeros and the other is not have nothing in common: their cosine is 0, and
// their relative difference is in units of 1.
func Compare(got, want []float32, width int, share float64) Difference {
	n := len(want) / width
	if n == 0 {
		return None()
	}
	angles, relative := make([]float64, n), make([]float64, n)
	for i := range n {
		d := compareRow(got[i*width:(i+1)*width], want[i*width:(i+1)*width])
		angles[i], relative[i] = -d.Cosine, d.Relative
	}
	slices.Sort(angles)
	slices.Sort(relative)
	held := min(n, max(1, int(math.Ceil(share*float64(n)))))
	return Difference{Cosine: -angles[held-1], Relative: relative[held-1]}
}

// Worse takes the worse of both figures.
func (d Difference) Worse(e Difference) Difference {
	return Difference{Cosine: min(d.Cosine, e.Cosine), Relative: max(d.Relative, e.Relative)}
}

func compareRow(got, want []float32) Difference {
	var dot, gg, ww, most float64
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		dot, gg, ww = dot+g*w, gg+g*g, ww+w*w
		most = max(most, math.Abs(g-w))
	}
	if most == 0 {
		return None()
	}
	d := Difference{Relative: most}
	if ww > 0 {
		d.Relative = most / math.Sqrt(ww/float64(len(want)))
	}
	if gg > 0 && ww > 0 {
		d.Cosine = max(-1, min(1, dot/math.Sqrt(gg)/math.Sqrt(ww)))
	}
	return d
}
