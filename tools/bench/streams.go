package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"muster/internal/infer"
)

// streams are how many requests are served at once.
var streams = []int{1, 4, 8}

// measureStreams measures how many tokens a second chains give to several
// clients together.
func measureStreams(ctx context.Context, s settings, report *strings.Builder) error {
	streamsHeading(report, s)
	models, err := s.specimens()
	if err != nil {
		return err
	}
	s.slots = streams[len(streams)-1]
	for _, m := range models {
		if err := s.crowd(ctx, m, report); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// crowd has all chains serve all numbers of clients, round by round.
func (s *settings) crowd(ctx context.Context, m specimen, report *strings.Builder) error {
	var all []*contender
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	for _, n := range s.sizes {
		c, err := startChain(ctx, s, m, n)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	got := make([][][]float64, len(all)) // tokens a second, by chain, number and round
	for i := range got {
		got[i] = make([][]float64, len(streams))
	}
	for round := range s.rounds + 1 {
		for i := range all {
			at := (i + round) % len(all) // nobody always follows the same one
			for k, n := range streams {
				rate, err := all[at].together(ctx, s, n)
				if err != nil {
					return fmt.Errorf("%s, %d clients: %w", all[at].name, n, err)
				}
				if round > 0 {
					got[at][k] = append(got[at][k], rate)
				}
			}
		}
	}
	streamsTable(report, m, all, got)
	return nil
}

// together has n clients answered at once, and gives the tokens a second of all
// of them, prompts included.
func (c *contender) together(ctx context.Context, s *settings, n int) (float64, error) {
	var clients sync.WaitGroup
	errs := make([]error, n)
	results := make([]infer.Result, n)
	began := time.Now()
	for i := range n {
		clients.Go(func() { results[i], errs[i] = c.ask(ctx, s.text(), s.tokens) })
	}
	clients.Wait()
	took := time.Since(began)
	tokens := 0
	for i, res := range results {
		switch {
		case errs[i] != nil:
			return 0, errs[i]
		case len(res.Tokens) != s.tokens:
			return 0, fmt.Errorf("it ended after %d tokens of %d", len(res.Tokens), s.tokens)
		}
		tokens += len(res.Tokens)
	}
	return float64(tokens) / took.Seconds(), nil
}

func streamsHeading(b *strings.Builder, s settings) {
	fmt.Fprintf(b, "\n## Tokens per second of several clients together\n\n")
	fmt.Fprintf(b, "%s after one to warm up, all chains up at once and asked in turn; each client has a prompt of %d tokens and is given "+
		"%d, %s a worker. All tokens generated, through the time from the first request to the last token, prompts included. "+
		"Medians (least to most).\n", plural(s.rounds, "round"), s.prompt, s.tokens, plural(s.threads, "thread"))
}

func streamsTable(b *strings.Builder, m specimen, all []*contender, got [][][]float64) {
	fmt.Fprintf(b, "\n### %s\n\n|", m.name)
	for _, n := range streams {
		fmt.Fprintf(b, " | %s", plural(n, "client"))
	}
	fmt.Fprintf(b, " |\n|---%s|\n", strings.Repeat("|---", len(streams)))
	for i, c := range all {
		fmt.Fprintf(b, "| %s", c.name)
		for k := range streams {
			fmt.Fprintf(b, " | %s", spread(got[i][k], 1))
		}
		fmt.Fprintf(b, " |\n")
	}
}
