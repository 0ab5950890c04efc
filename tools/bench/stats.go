package main

import (
	"fmt"
	"slices"
)

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread is a median with the least and the most.
func spread(v []float64, digits int) string {
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, median(v), digits, slices.Min(v), digits, slices.Max(v))
}

// ratios are those of each round to the reference's.
func ratios(v, reference []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] / reference[i]
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// verdict says whether an aim was met.
func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
