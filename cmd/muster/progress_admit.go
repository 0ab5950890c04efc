package main

import (
	"fmt"
	"strings"

	"muster/internal/core/probe"
	"muster/internal/event"
)

// findings puts what a doctor found into a few words: how many checks, and the
// figures that tell most.
func findings(checks []event.Check) string {
	said := []string{fmt.Sprintf("%d checks passed", len(checks))}
	for _, c := range checks {
		switch c.Name {
		case probe.Cosine:
			said = append(said, fmt.Sprintf("cosine %.7f to the reference", c.Got))
		case probe.Relative:
			said = append(said, fmt.Sprintf("%.2g apart of %.2g", c.Got, c.Limit))
		case probe.Full:
			said = append(said, fmt.Sprintf("%.0f tokens held", c.Got))
		case probe.Prefill:
			said = append(said, fmt.Sprintf("%.2f ms a token in chunks", c.Got/1000))
		}
	}
	return strings.Join(said, ", ")
}
