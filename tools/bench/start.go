package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/infer"
	"muster/internal/local"
	"muster/internal/member"
	"muster/internal/orch"
	"muster/internal/wire"
)

const (
	startNodes = 3
	startAim   = 1500 * time.Millisecond
)

// start is one start of a pool, each time since the start of the last node's
// process.
type start struct {
	available time.Duration // every node has proven its facts
	ready     time.Duration // the pool is ready
	served    time.Duration // requests are taken
	first     time.Duration // the first token is there
}

// measureStart forms pools one after the other and asks each for a token.
func measureStart(ctx context.Context, s settings, report *strings.Builder) error {
	window, err := member.Local().Window(0)
	if err != nil {
		return err
	}
	var all []start
	for i := range s.trials {
		one, err := startOnce(ctx, s)
		if err != nil {
			return fmt.Errorf("start %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	startTable(report, all, window)
	return nil
}

// startOnce forms a pool and has it give a token.
func startOnce(ctx context.Context, s settings) (start, error) {
	var seen census
	var at moments
	p, err := local.Start(ctx, s.pool(startNodes, orch.Model{Name: demo.Name}, func(node string, e event.Event) {
		seen.tell(node, e)
		at.tell(e)
	}))
	if err == nil {
		err = awaited(ctx, p)
	}
	if err != nil {
		return start{}, err
	}
	defer p.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what was to be measured has been
	at.note(&at.served)
	var first time.Time
	if _, err := p.Generate(ctx, orch.Request{Prompt: "Once upon a time", Sampling: infer.Greedy(), MaxTokens: 1},
		func(string, wire.Answer) error {
			if first.IsZero() {
				first = time.Now()
			}
			return nil
		}); err != nil {
		return start{}, err
	}
	began, err := lastStart(seen.nodes())
	if err != nil {
		return start{}, err
	}
	return at.since(began, first), nil
}

// lastStart is when the last of the processes started.
func lastStart(pids []int) (time.Time, error) {
	if len(pids) != startNodes {
		return time.Time{}, fmt.Errorf("%d processes of %d nodes were found", len(pids), startNodes)
	}
	now, err := sinceBoot()
	if err != nil {
		return time.Time{}, err
	}
	here := time.Now()
	var last time.Duration
	for _, pid := range pids {
		started, ok := startedAfterBoot(pid)
		if !ok {
			return time.Time{}, fmt.Errorf("the start of process %d is not known", pid)
		}
		last = max(last, started)
	}
	return here.Add(last - now), nil
}

// moments are when a pool's steps were told.
type moments struct {
	mu                       sync.Mutex
	available, ready, served time.Time // the last of each kind
}

func (m *moments) tell(e event.Event) {
	switch e.(type) {
	case event.NodeReportedAvailable:
		m.note(&m.available)
	case event.PoolBecameReady:
		m.note(&m.ready)
	}
}

func (m *moments) note(at *time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*at = time.Now()
}

func (m *moments) since(began, first time.Time) start {
	m.mu.Lock()
	defer m.mu.Unlock()
	return start{
		available: m.available.Sub(began), ready: m.ready.Sub(began), served: m.served.Sub(began), first: first.Sub(began),
	}
}

func startTable(b *strings.Builder, all []start, window time.Duration) {
	fmt.Fprintf(b, "\n## From the last node's start to the first token\n\n")
	fmt.Fprintf(b, "%s of a pool of %d nodes with the model tale, as `muster up` forms it: all node processes are started at once, from "+
		"nothing. Milliseconds since the last of these processes was started (to 10 ms, as the kernel notes it); from the second line "+
		"on the convergence window of %d ms is taken off.\n\n", plural(len(all), "start"), startNodes, window.Milliseconds())
	fmt.Fprintf(b, "| until | median, ms | worst, ms |\n|---|---|---|\n")
	var firsts []float64
	for _, line := range []struct {
		name string
		of   func(start) time.Duration
	}{
		{"every node is available", func(s start) time.Duration { return s.available }},
		{"the pool is ready", func(s start) time.Duration { return s.ready - window }},
		{"requests are taken", func(s start) time.Duration { return s.served - window }},
		{"the first token", func(s start) time.Duration { return s.first - window }},
	} {
		took := make([]float64, len(all))
		for i, one := range all {
			took[i] = line.of(one).Seconds() * 1000
		}
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", line.name, median(took), slices.Max(took))
		firsts = took
	}
	aim := float64(startAim.Milliseconds())
	fmt.Fprintf(b, "\nAim for the first token: at most %.0f ms; median %.0f, worst %.0f, %s.\n",
		aim, median(firsts), slices.Max(firsts), verdict(slices.Max(firsts) <= aim))
}
