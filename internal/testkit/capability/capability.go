// Package capability makes reports of forwards that never were: the stub by
// which tests without an engine come to a route. It lives in the test kit, which
// no product imports, so that no flag, variable or file of a release leads to
// it.
package capability

import (
	"muster/internal/core/admit"
	"muster/internal/core/probe"
)

// Passed is a report that has all that is wanted, for a challenge.
func Passed(w admit.Want, c admit.Challenge, sequence uint64) admit.Report {
	r := admit.Report{
		Schema: admit.Schema, Binding: w.Binding, Challenge: c, Sequence: sequence,
		Capacity: admit.Capacity{Context: max(1, w.Context), Slots: max(1, w.Slots), ResidentBytes: 1},
		Speed:    admit.Speed{TokenMicros: 1, ChunkMicros: 1, ChunkTokens: 1},
	}
	for _, name := range probe.Required(w.Referenced, w.Last()) {
		r.Checks = append(r.Checks, passed(name, w))
	}
	return r
}

func passed(name string, w admit.Want) probe.Check {
	c := probe.Check{Name: name, Passed: true}
	switch name {
	case probe.Cosine:
		c.Got, c.Limit = 1, max(w.Tolerance.Cosine, 0.5)
	case probe.Relative, probe.Stepwise, probe.Memory:
		c.Limit = 1
	case probe.Full:
		c.Got, c.Limit = float64(w.Context), float64(w.Context)
	case probe.Sensitive, probe.Decode, probe.Prefill:
		c.Got = 1
	}
	return c
}
