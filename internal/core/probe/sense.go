package probe

import "math"

// Holds reports whether a check that comes from elsewhere holds by its own
// figures, whatever Passed says: they are finite, Got is Within the limit, and
// the limit is one that the check can have. Where the limit is given by the
// check, as the 0 of Slice, no other holds.
func (c Check) Holds() bool {
	for _, v := range []float64{c.Got, c.Limit} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	switch c.Name {
	case Slice, Finite, TopToken, Repeat, Rollback:
		return c.Got == 0 && c.Limit == 0
	case Relative, Stepwise, Memory:
		return c.Got >= 0 && Within(c.Name, c.Got, c.Limit)
	case Cosine, Full:
		return c.Limit > 0 && Within(c.Name, c.Got, c.Limit)
	default:
		return c.Limit >= 0 && Within(c.Name, c.Got, c.Limit)
	}
}
