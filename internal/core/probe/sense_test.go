package probe_test

import (
	"math"
	"testing"

	"muster/internal/core/probe"
)

func TestEachCheckHasItsSense(t *testing.T) {
	type figures struct{ got, limit float64 }
	cases := map[string]struct{ pass, fail []figures }{
		probe.Slice:     {[]figures{{0, 0}}, []figures{{1, 0}, {1, 1}, {0, 1}, {-1, 0}}},
		probe.Finite:    {[]figures{{0, 0}}, []figures{{1, 0}, {3, 8}}},
		probe.Cosine:    {[]figures{{0.999, 0.99}, {0.99, 0.99}}, []figures{{0.98, 0.99}, {0.5, 0}, {0.5, -1}}},
		probe.Relative:  {[]figures{{0.01, 0.02}, {0.02, 0.02}, {0, 0}}, []figures{{0.03, 0.02}, {-0.01, 0.02}}},
		probe.TopToken:  {[]figures{{0, 0}}, []figures{{1, 0}, {1, 2}}},
		probe.Repeat:    {[]figures{{0, 0}}, []figures{{1e-9, 0}, {0, 1e-9}}},
		probe.Stepwise:  {[]figures{{0.1, 0.1}}, []figures{{0.2, 0.1}}},
		probe.Sensitive: {[]figures{{0.5, 0}, {0.5, 0.1}}, []figures{{0, 0}, {0.1, 0.1}, {0, -1}}},
		probe.Rollback:  {[]figures{{0, 0}}, []figures{{1, 0}}},
		probe.Full:      {[]figures{{256, 256}, {512, 256}}, []figures{{255, 256}, {0, 0}}},
		probe.Memory:    {[]figures{{1e9, 2e9}}, []figures{{3e9, 2e9}, {1, 0}}},
		probe.Decode:    {[]figures{{100, 0}}, []figures{{0, 0}, {-1, 0}, {0, -1}}},
		probe.Prefill:   {[]figures{{0.5, 0}}, []figures{{0, 0}}},
	}
	for _, name := range probe.Names() {
		c, ok := cases[name]
		if !ok {
			t.Errorf("nothing shows the sense of %s", name)
		}
		nothing := []figures{
			{math.NaN(), 0},
			{0, math.NaN()},
			{math.Inf(1), 0},
			{0, math.Inf(1)},
			{math.Inf(-1), math.Inf(-1)},
		}
		for _, f := range c.pass {
			if !(probe.Check{Name: name, Got: f.got, Limit: f.limit}).Holds() {
				t.Errorf("%s with %v against %v does not hold", name, f.got, f.limit)
			}
		}
		for _, f := range append(c.fail, nothing...) {
			if (probe.Check{Name: name, Passed: true, Got: f.got, Limit: f.limit}).Holds() {
				t.Errorf("%s with %v against %v holds", name, f.got, f.limit)
			}
		}
	}
	if (probe.Check{Name: "mood", Passed: true, Got: 1, Limit: 0}).Holds() {
		t.Error("a check that is not known holds")
	}
}
