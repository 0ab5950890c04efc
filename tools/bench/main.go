// Command bench measures what a user would notice, and writes it into
// bench/records with what it was measured on.
//
//	chain    tokens a second of chains of workers
//	pool     tokens a second of pools of node processes over loopback QUIC
//	streams  tokens a second of 1, 4 and 8 clients of a chain together
//	edge     a record from ring to ring through loopback QUIC
//	start    from the start of the last node's process to the first token
//
// Whatever serves tokens is up at once with the unsliced model and asked in
// turn, so that a change of the machine's speed meets all alike.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/demo"
	"muster/internal/enginedir"
	"muster/internal/testkit/randmodel"
	"muster/internal/wire"
)

type settings struct {
	parts                           []string
	sizes                           []int
	rounds, prompt, tokens, threads int
	small, large, trials            int
	slots                           int // of the recipe; 0 is 1
	binary, program                 string
	records, revision               string
	engine                          string
	tmp                             string // folder of the models
}

// everyPart is what is measured where nothing is chosen, in the order of the
// record.
var everyPart = []string{"chain", "pool", "streams", "edge", "start"}

func main() {
	var s settings
	parts := flag.String("parts", strings.Join(everyPart, ","), "what to measure")
	sizes := flag.String("sizes", "1,2,3", "workers of the chains and nodes of the pools: each more idles on the same processors")
	flag.IntVar(&s.rounds, "rounds", 9, "counted rounds of chains and pools; one more warms up")
	flag.IntVar(&s.prompt, "prompt", 128, "tokens of the prompt")
	flag.IntVar(&s.tokens, "tokens", 64, "tokens generated")
	flag.IntVar(&s.threads, "threads", 1, "compute threads a worker")
	flag.IntVar(&s.small, "small", 5000, "records of 8 KiB")
	flag.IntVar(&s.large, "large", 100, "records of 4 MiB")
	flag.IntVar(&s.trials, "trials", 9, "starts of a pool")
	flag.StringVar(&s.binary, "worker", "bin/muster-worker", "the worker's binary")
	flag.StringVar(&s.program, "muster", "bin/muster", "muster's binary")
	flag.StringVar(&s.records, "records", "bench/records", "folder of the records")
	flag.StringVar(&s.revision, "revision", "unknown", "what is measured")
	flag.StringVar(&s.engine, "engine", "", "folder of the llama.cpp libraries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s, *parts, *sizes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, parts, sizes string) error {
	var err error
	if s.parts, err = choose(parts); err != nil {
		return err
	}
	if s.sizes, err = numbers(sizes); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.engine, err = enginedir.Locate(s.engine, enginedir.Bases()...); err != nil {
		return err
	}
	if s.tmp, err = os.MkdirTemp("", "muster-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.tmp) //nolint:errcheck // what is left lies in the system's temporary folder
	var report strings.Builder
	heading(&report, s)
	for _, part := range []struct {
		of      []string
		measure func(context.Context, settings, *strings.Builder) error
	}{
		{[]string{"chain", "pool"}, measureTokens},
		{[]string{"streams"}, measureStreams},
		{[]string{"edge"}, measureEdge},
		{[]string{"start"}, measureStart},
	} {
		if !slices.ContainsFunc(part.of, s.has) {
			continue
		}
		if err := part.measure(ctx, s, &report); err != nil {
			return err
		}
	}
	fmt.Print(report.String())
	if err := os.MkdirAll(s.records, 0o755); err != nil {
		return err
	}
	name := time.Now().UTC().Format("2006-01-02-1504") + "-" + strings.Join(s.parts, "-") + ".md"
	return os.WriteFile(filepath.Join(s.records, name), []byte(report.String()), 0o644)
}

// choose reads a list of parts; they come back in the order of the record.
func choose(list string) ([]string, error) {
	asked := strings.Split(list, ",")
	for _, part := range asked {
		if !slices.Contains(everyPart, part) {
			return nil, fmt.Errorf("part %q is none of %s", part, strings.Join(everyPart, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(everyPart), func(part string) bool { return !slices.Contains(asked, part) }), nil
}

// numbers reads a list of sizes.
func numbers(list string) ([]int, error) {
	var all []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-sizes %q: give numbers from 1, such as 1,2,3", list)
		}
		all = append(all, n)
	}
	return all, nil
}

func (s *settings) has(part string) bool { return slices.Contains(s.parts, part) }

// check refuses counts of which there is no median, and makes paths absolute.
func (s *settings) check() error {
	for name, n := range map[string]int{
		"rounds": s.rounds, "prompt": s.prompt, "tokens": s.tokens, "threads": s.threads,
		"small": s.small, "large": s.large, "trials": s.trials,
	} {
		if n < 1 {
			return fmt.Errorf("-%s %d: give 1 or more", name, n)
		}
	}
	for _, path := range []*string{&s.binary, &s.program} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// recipe is that of everything that serves tokens.
func (s *settings) recipe() wire.Recipe {
	return wire.Recipe{
		Context: 512 * max(1, s.slots), Slots: max(1, s.slots), Chunk: 512, Threads: s.threads,
		KVType: "f16", FlashAttention: "auto", Repack: true,
	}
}

// specimen is a model to measure with. aim is the least ratio of the decode of
// three nodes to the reference's, 0 where there is none.
type specimen struct {
	name, path string
	aim        float64
}

func (s *settings) specimens() ([]specimen, error) {
	tale := filepath.Join(s.tmp, "tale.gguf")
	if err := os.WriteFile(tale, demo.Tale(), 0o600); err != nil {
		return nil, err
	}
	big := filepath.Join(s.tmp, "250m.gguf")
	shape, ok := randmodel.Preset("250m")
	if !ok {
		return nil, fmt.Errorf("no model to measure")
	}
	if err := randmodel.GenerateFile(big, shape); err != nil {
		return nil, err
	}
	return []specimen{{"tale (1.8M, Q8_0)", tale, 0}, {"random llama 250M, Q8_0", big, 0.93}}, nil
}
