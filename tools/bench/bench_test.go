package main

import (
	"slices"
	"testing"
)

func TestPartsComeInTheOrderOfTheRecord(t *testing.T) {
	got, err := choose("start,chain")
	if err != nil || !slices.Equal(got, []string{"chain", "start"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "chain,", "edges"} {
		if got, err := choose(bad); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestMetricsOfABenchmark(t *testing.T) {
	const out = `goos: linux
BenchmarkOneWay/8KiBytes-2  	 10	 1 ns/op	 9 p50-us	 9 p99-us
BenchmarkOneWay/8KiB-2      	    2000	    228951 ns/op	       161.9 p50-us	      1398 p99-us
PASS
`
	m, err := metrics(out, "BenchmarkOneWay/8KiB")
	if err != nil || m["p50-us"] != 161.9 || m["p99-us"] != 1398 {
		t.Errorf("got %v, %v", m, err)
	}
	for name, bad := range map[string]string{
		"no benchmark ran": "PASS\n",
		"no percentiles":   "BenchmarkOneWay/8KiB 5 12 ns/op\n",
		"no number":        "BenchmarkOneWay/8KiB 5 12 ns/op x p50-us 4 p99-us\n",
	} {
		if m, err := metrics(bad, "BenchmarkOneWay/8KiB"); err == nil {
			t.Errorf("%s: got %v", name, m)
		}
	}
}

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want string
	}{
		{[]float64{3, 1, 2}, "2.0 (1.0 to 3.0)"},
		{[]float64{4, 1, 2, 3}, "2.5 (1.0 to 4.0)"},
		{[]float64{7}, "7.0 (7.0 to 7.0)"},
	} {
		if got := spread(c.v, 1); got != c.want {
			t.Errorf("%v gives %s, want %s", c.v, got, c.want)
		}
	}
}

// A ratio is that of one round: a machine that turns slow between rounds does
// not change it.
func TestRatiosAreThoseOfTheirRound(t *testing.T) {
	if got := ratios([]float64{90, 45}, []float64{100, 50}); !slices.Equal(got, []float64{0.9, 0.9}) {
		t.Errorf("got %v", got)
	}
}

func TestStatFieldsPassOverTheProgramsName(t *testing.T) {
	const line = "42 (a) b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 12 0 0 20 0 1 0 288758 3133440 389"
	n, ok := statFields(line, statParent, statUser, statSystem, statStarted)
	if !ok || !slices.Equal(n, []int64{7, 11, 12, 288758}) {
		t.Errorf("got %v, %v", n, ok)
	}
	if n, ok := statFields("42 (a) S 7", statStarted); ok {
		t.Errorf("a short line gives %v", n)
	}
}
