package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// edgeAim is the most that half of the records of 8 KiB may take.
const edgeAim = 300 * time.Microsecond

// measureEdge runs the benchmark of package edge, which has what it needs at
// hand, once a size of record.
func measureEdge(ctx context.Context, s settings, report *strings.Builder) error {
	fmt.Fprintf(report, "\n## A record from ring to ring\n\n")
	fmt.Fprintf(report, "`BenchmarkOneWay` of internal/edge: one record at a time from a ring of one node through its pump, QUIC over a UDP "+
		"socket of loopback, and the other node's pump into a ring of it. One way, by one clock: both nodes are in one process, "+
		"measured from the write to the last byte read.\n\n")
	fmt.Fprintf(report, "| record | records | p50, us | p99, us |\n|---|---|---|---|\n")
	var p50 float64
	for _, size := range []struct {
		name    string
		records int
	}{{"8KiB", s.small}, {"4MiB", s.large}} {
		// -run=^$ runs none of its tests.
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^BenchmarkOneWay$/^"+size.name+"$",
			"-benchtime="+strconv.Itoa(size.records)+"x", "./internal/edge")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("the benchmark of %s: %w: %s", size.name, err, out)
		}
		m, err := metrics(string(out), "BenchmarkOneWay/"+size.name)
		if err != nil {
			return fmt.Errorf("%w in: %s", err, out)
		}
		fmt.Fprintf(report, "| %s | %d | %.1f | %.1f |\n", size.name, size.records, m["p50-us"], m["p99-us"])
		if size.name == "8KiB" {
			p50 = m["p50-us"]
		}
	}
	aim := float64(edgeAim.Microseconds())
	fmt.Fprintf(report, "\nAim for the p50 of 8 KiB: at most %.0f us; %.1f, %s.\n", aim, p50, verdict(p50 <= aim))
	return nil
}

// metrics reads the line of one benchmark: its name, how often it ran, and
// pairs of number and unit.
func metrics(out, name string) (map[string]float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != name && !strings.HasPrefix(fields[0], name+"-") {
			continue
		}
		m := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is no number", fields[i])
			}
			m[fields[i+1]] = v
		}
		for _, unit := range []string{"p50-us", "p99-us"} {
			if m[unit] <= 0 {
				return nil, fmt.Errorf("no %s", unit)
			}
		}
		return m, nil
	}
	return nil, fmt.Errorf("no line of %s", name)
}
