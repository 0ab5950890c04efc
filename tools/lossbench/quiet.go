//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/id"
	"muster/internal/infer"
)

// watch is what a pool without any loss has told.
type watch struct {
	nodes   int
	load    string // "idle", or what it was loaded with
	began   time.Time
	lasted  time.Duration
	answers int
	tokens  int
	counts  map[string]int // of what must not happen, by name and node
	faulted int            // runs
	suspect int            // suspicions of the orchestrator's view
	other   int
}

// watchAll watches a pool of each size idle and then loaded.
func watchAll(ctx context.Context, s *settings, r *record) error {
	for _, n := range s.sizes {
		if err := watchPool(ctx, s, r, n); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
	}
	return nil
}

func watchPool(ctx context.Context, s *settings, r *record, n int) (err error) {
	p, err := newPool(ctx, s, n, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	idle := p.watch(ctx, "idle", func(context.Context, *watch) {})
	r.watches = append(r.watches, idle)
	fmt.Println(idle.line())
	load := "answers back to back"
	if s.burn {
		load += ", and a busy loop a processor"
		stop, err := burn()
		if err != nil {
			return err
		}
		defer stop()
	}
	loaded := p.watch(ctx, load, p.keepAnswering)
	r.watches = append(r.watches, loaded)
	fmt.Println(loaded.line())
	return ctx.Err()
}

// watch counts, for as long as the flags say, while the pool is put to use.
func (p *pool) watch(ctx context.Context, load string, use func(context.Context, *watch)) *watch {
	w := &watch{nodes: len(p.nodes), load: load, began: time.Now(), counts: map[string]int{}}
	fmt.Printf("%d nodes, %s, for %v\n", w.nodes, load, p.s.quiet)
	since := p.latest(ctx)
	ctx, cancel := context.WithTimeout(ctx, p.s.quiet)
	defer cancel()
	told := make(chan error, 1)
	events := make(chan gateway.Event)
	go func() {
		told <- p.api.Events(ctx, since, true, func(e gateway.Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	used := make(chan struct{})
	go func() { defer close(used); use(ctx, w) }()
	for {
		select {
		case e := <-events:
			p.count(w, e)
			continue
		case err := <-told:
			if ctx.Err() == nil {
				w.other++
				w.counts[fmt.Sprintf("the journal ended: %v", err)]++
				<-ctx.Done()
			}
		}
		break
	}
	<-used
	w.lasted = time.Since(w.began).Round(time.Second)
	return w
}

// latest is the sequence of the journal's last event.
func (p *pool) latest(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var last uint64
	_ = p.api.Events(ctx, 0, false, func(e gateway.Event) error { // what was read until then counts
		last = e.Sequence
		return nil
	})
	return last
}

// count adds what must not happen in a pool that loses nothing.
func (p *pool) count(w *watch, e gateway.Event) {
	told, known := event.Parse(e.Event)
	if !known {
		return
	}
	what := func(n id.NodeID, f *fault.Fault) string {
		if f == nil {
			return fmt.Sprintf("%s (%s)", told.Name(), p.caller(n.Short()))
		}
		return fmt.Sprintf("%s (%s): %s", told.Name(), p.caller(n.Short()), f.Code)
	}
	var name string
	switch t := told.(type) {
	case event.RunEnded:
		if t.Fault == nil {
			return
		}
		w.faulted++
		name = what(t.Node, t.Fault)
	case event.MemberStateChanged:
		if t.State == "alive" {
			return
		}
		w.suspect++
		name = what(t.Node, nil) + ": " + t.State
	case event.RunStageFaulted:
		w.other++
		name = what(t.Node, t.Fault)
	case event.NodeReportedFault:
		w.other++
		name = what(t.Node, t.Fault)
	case event.PoolReadinessLost, event.MemberViewLost, event.TokenizerLost, event.EventsDropped:
		w.other++
		name = told.Name()
	default:
		return
	}
	w.counts[name]++
	fmt.Printf("  %6.1f s: %s\n", time.Since(w.began).Seconds(), name)
}

// keepAnswering has answers streamed one after the other. What ends one by a
// fault is counted where the run tells of it.
func (p *pool) keepAnswering(ctx context.Context, w *watch) {
	sampling := infer.Greedy()
	sampling.Temperature = 1.5
	for ctx.Err() == nil {
		sampling.Seed++
		_, err := p.api.Run(ctx, gateway.Prompt{Prompt: story, Sampling: sampling, MaxTokens: longAnswer}, func(string) error {
			w.tokens++
			return nil
		})
		if err == nil {
			w.answers++
		} else if !pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}

func (w *watch) line() string {
	return fmt.Sprintf("%d nodes, %s: %d runs faulted, %d suspicions, %d other faults in %v; %d answers, %d tokens",
		w.nodes, w.load, w.faulted, w.suspect, w.other, w.lasted, w.answers, w.tokens)
}
