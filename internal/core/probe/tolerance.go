package probe

import "math"

// Drift is how far honest computations of one part of a model were apart when
// its reference was made, at the end of the part.
type Drift struct {
	// Local: the part was fed with the reference's rows as they are stored, by
	// the same batches, by others, and token by token.
	Local Difference `json:"local"`
	// Carried: all parts up to this one were computed by other batches, and
	// token by token, each fed with what its own kind had made of the prompt.
	Carried Difference `json:"carried"`
}

// Bounds of a tolerance. The reasons stand in docs/design/0006.
const (
	factor        = 4    // on what was measured: another machine draws other rounding errors of the same size
	leastRelative = 2e-2 // of a tolerance
	leastAngle    = 5e-3 // likewise, in radians

	// ExpertsShare is the share of rows of a mixture of experts. A prompt's
	// logits are one row, which cannot be left out: they may be thrown.
	ExpertsShare   = 0.75
	thrownRelative = 2.5
	thrownAngle    = 0.6
)

// Tolerate gives the tolerance of a range of parts that begins after so many
// and ends with the last of drifts, which start at the model's first part and
// were measured by the share. What goes into a part grows by as much as was seen
// to grow, and the part adds its own; a range that does not begin at the model's
// start drifts no more than one that does. logits says that the range ends in
// them.
func Tolerate(drifts []Drift, begin int, share float64, logits bool) Tolerance {
	relative := max(leastRelative, factor*grown(drifts, begin, func(d Difference) float64 { return d.Relative }))
	angle := max(leastAngle, factor*grown(drifts, begin, Difference.angle))
	if logits && share < 1 {
		relative, angle = max(relative, thrownRelative), max(angle, thrownAngle)
	}
	return Tolerance{Share: share, Cosine: math.Cos(min(angle, math.Pi/2)), Relative: relative}
}

func grown(drifts []Drift, begin int, of func(Difference) float64) float64 {
	sum, before := 0.0, 0.0
	for i, d := range drifts {
		local, carried := of(d.Local), of(d.Carried)
		if i >= begin {
			gain := 1.0
			if before > 0 {
				gain = max(1, (carried-local)/before)
			}
			sum = min(sum*gain+local, max(carried, local))
		}
		before = carried
	}
	return sum
}

// angle is the angle of rows to the reference's, in radians.
func (d Difference) angle() float64 { return math.Acos(max(-1, min(1, d.Cosine))) }

// Holds reports whether rows so far from the reference's, by t's share, are
// within t.
func (t Tolerance) Holds(d Difference) bool { return d.Cosine >= t.Cosine && d.Relative <= t.Relative }
