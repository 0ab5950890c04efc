package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func heading(b *strings.Builder, s settings) {
	fmt.Fprintf(b, "# Measured: %s\n\n", strings.Join(s.parts, ", "))
	fmt.Fprintf(b, "%s, %s, %s, %s/%s, %s, revision %s, `%s`.\n", time.Now().UTC().Format("2006-01-02"),
		processor(), plural(runtime.NumCPU(), "processor"), runtime.GOOS, runtime.GOARCH, runtime.Version(), s.revision, command())
}

// command is how to measure this again.
func command() string {
	return strings.Join(append([]string{"go run ./tools/bench"}, os.Args[1:]...), " ")
}

func tokensHeading(b *strings.Builder, s settings) {
	fmt.Fprintf(b, "\n## Tokens per second against the unsliced model\n\n")
	fmt.Fprintf(b, "%s after one to warm up, all contenders up at once and asked in turn, whose tokens were the same; prompt of "+
		"%d tokens, %d generated greedily, %s a worker. A pool is what `muster up` forms: node processes joined by QUIC over "+
		"loopback, each with its worker. Medians (least to most); a ratio is that of one round to the reference in the same round.\n",
		plural(s.rounds, "round"), s.prompt, s.tokens, plural(s.threads, "thread"))
}

func tokensTable(b *strings.Builder, s settings, m specimen, all []*contender) {
	fmt.Fprintf(b, "\n### %s\n\n", m.name)
	fmt.Fprintf(b, "| | prefill, tokens/s | ratio | decode, tokens/s | ratio | resident a worker, MiB | idle, %% of a processor |\n")
	fmt.Fprintf(b, "|---|---|---|---|---|---|---|\n")
	ref := all[0]
	for _, c := range all {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %.1f |\n", c.name,
			spread(c.prefill, 1), spread(ratios(c.prefill, ref.prefill), 3),
			spread(c.decode, 1), spread(ratios(c.decode, ref.decode), 3), mebibytes(c.resident), 100*c.idle)
	}
	if last := all[len(all)-1]; m.aim > 0 && s.has("pool") {
		got := median(ratios(last.decode, ref.decode))
		fmt.Fprintf(b, "\nAim for the decode of a %s: at least %.2f of the reference; %.3f, %s.\n", last.name, m.aim, got, verdict(got >= m.aim))
	}
}

func mebibytes(v []uint64) string {
	out := make([]string, len(v))
	for i, n := range v {
		out[i] = strconv.FormatUint(n>>20, 10)
	}
	return strings.Join(out, ", ")
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "processor unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}
