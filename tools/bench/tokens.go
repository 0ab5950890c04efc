package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/infer"
)

// measureTokens measures chains and pools against the unsliced model.
func measureTokens(ctx context.Context, s settings, report *strings.Builder) error {
	tokensHeading(report, s)
	models, err := s.specimens()
	if err != nil {
		return err
	}
	for _, m := range models {
		if err := race(ctx, s, m, report); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// contender is one way of serving the model.
type contender struct {
	name    string
	ask     func(ctx context.Context, prompt []int32, tokens int) (infer.Result, error)
	workers func() []int // processes that hold stages
	others  func() []int // its other processes, this one aside
	stop    func()

	prefill, decode []float64 // tokens a second, one a round
	resident        []uint64  // bytes, one a worker
	idle            float64   // share of one processor while nothing is asked
}

// line starts all contenders; the reference comes first. Those that were started
// come back with an error too.
func (s *settings) line(ctx context.Context, m specimen) ([]*contender, error) {
	var all []*contender
	add := func(c *contender, err error) error {
		if err == nil {
			all = append(all, c)
		}
		return err
	}
	if err := add(startChain(ctx, s, m, 0)); err != nil {
		return all, err
	}
	for _, of := range []struct {
		part  string
		start func(context.Context, *settings, specimen, int) (*contender, error)
	}{{"chain", startChain}, {"pool", startPool}} {
		if !s.has(of.part) {
			continue
		}
		for _, n := range s.sizes {
			if err := add(of.start(ctx, s, m, n)); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// race has all contenders answer the same prompt, round by round.
func race(ctx context.Context, s settings, m specimen, report *strings.Builder) error {
	all, err := s.line(ctx, m)
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	if err != nil {
		return err
	}
	var want []int32
	for round := range s.rounds + 1 {
		for i := range all {
			c := all[(i+round)%len(all)] // nobody always follows the same one
			tokens, err := c.answer(ctx, s, round > 0)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if want == nil {
				want = tokens
			}
			if !slices.Equal(tokens, want) {
				return fmt.Errorf("%s: its tokens differ from those of the others: %v, not %v", c.name, tokens, want)
			}
		}
	}
	if err := rest(ctx, all); err != nil {
		return err
	}
	tokensTable(report, s, m, all)
	return nil
}

// answer has one prompt answered.
func (c *contender) answer(ctx context.Context, s settings, counted bool) ([]int32, error) {
	prompt := s.text()
	res, err := c.ask(ctx, prompt, s.tokens)
	if err != nil {
		return nil, err
	}
	if len(res.Tokens) != s.tokens {
		return nil, fmt.Errorf("it ended after %d tokens of %d", len(res.Tokens), s.tokens)
	}
	if counted {
		c.prefill = append(c.prefill, float64(len(prompt))/res.FirstToken.Seconds())
		c.decode = append(c.decode, float64(res.Decoded)/res.Decoding.Seconds())
	}
	return res.Tokens, nil
}

// text is the prompt of every client.
func (s *settings) text() []int32 {
	prompt := make([]int32, s.prompt)
	for i := range prompt {
		prompt[i] = int32(3 + i*7%200) // tale goes on for 128 tokens after it
	}
	return prompt
}

// idleFor is how long the processes are watched while nothing is asked.
const idleFor = 3 * time.Second

// rest measures what the processes use while idle, and the workers' memory.
func rest(ctx context.Context, all []*contender) error {
	used := func(c *contender) time.Duration { return processorTime(append(c.workers(), c.others()...)) }
	before := make([]time.Duration, len(all))
	for i, c := range all {
		before[i] = used(c)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleFor):
	}
	for i, c := range all {
		c.idle = (used(c) - before[i]).Seconds() / idleFor.Seconds()
		for _, pid := range c.workers() {
			bytes, err := resident(pid)
			if err != nil {
				return err
			}
			c.resident = append(c.resident, bytes)
		}
	}
	return nil
}
