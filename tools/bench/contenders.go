package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"muster/internal/chain"
	"muster/internal/event"
	"muster/internal/infer"
	"muster/internal/local"
	"muster/internal/orch"
	"muster/internal/weights"
	"muster/internal/wire"
)

// startChain starts a chain of workers; 0 of them is the reference, one worker
// with the unsliced model.
func startChain(ctx context.Context, s *settings, m specimen, workers int) (*contender, error) {
	cache, err := weights.OpenCache("")
	if err != nil {
		return nil, err
	}
	ch, err := chain.Start(ctx, chain.Config{
		Model: chain.Model{Name: m.name, Path: m.path}, Workers: max(1, workers), Whole: workers == 0,
		Recipe: s.recipe(), Engine: s.engine, Binary: s.binary, Cache: cache, Tell: func(event.Event) {},
	})
	if err != nil {
		return nil, err
	}
	c := &contender{name: "chain of " + plural(workers, "worker"), stop: ch.Stop}
	if workers == 0 {
		c.name = "reference"
	}
	c.ask = func(ctx context.Context, prompt []int32, tokens int) (infer.Result, error) {
		return ch.Generate(ctx, infer.Request{
			Prompt: prompt, Sampling: infer.Greedy(), MaxTokens: tokens,
		}, func(string, wire.Answer) error { return nil })
	}
	stages := max(1, workers)
	c.workers = func() []int { return ch.PIDs()[:stages:stages] }
	c.others = func() []int { return ch.PIDs()[stages:] }
	return c, nil
}

// awaited returns once a pool serves, and ends one that does not come to it.
func awaited(ctx context.Context, p *local.Pool) error {
	err := p.Await(ctx)
	if err != nil {
		_ = p.Close(context.WithoutCancel(ctx)) // why it did not serve is what counts
	}
	return err
}

// startPool starts a pool as `muster up` does: the orchestrator here, each node
// a process.
func startPool(ctx context.Context, s *settings, m specimen, nodes int) (*contender, error) {
	var seen census
	p, err := local.Start(ctx, s.pool(nodes, orch.Model{Name: m.name, Path: m.path}, seen.tell))
	if err == nil {
		err = awaited(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	c := &contender{name: "pool of " + plural(nodes, "node"), workers: seen.workers, others: seen.nodes}
	c.ask = func(ctx context.Context, prompt []int32, tokens int) (infer.Result, error) {
		return p.Generate(ctx, orch.Request{
			Tokens: prompt, Sampling: infer.Greedy(), MaxTokens: tokens,
		}, func(string, wire.Answer) error { return nil })
	}
	c.stop = func() { _ = p.Close(context.WithoutCancel(ctx)) } // its work is done, and its processes end anyway
	return c, nil
}

// pool is the configuration of a pool on this machine.
func (s *settings) pool(nodes int, m orch.Model, tell func(string, event.Event)) local.Config {
	return local.Config{
		Nodes: nodes, Model: m, Recipe: s.recipe(), Engine: s.engine, Binary: s.binary, Program: s.program,
		Version: s.revision, Tell: tell, ThreadsMost: max(1, runtime.NumCPU()/nodes), // as `muster up` has it
	}
}

// census keeps which processes a pool has, from what its nodes tell.
type census struct {
	mu   sync.Mutex
	pids map[string]int // of the worker, by the node's name
}

func (c *census) tell(node string, e event.Event) {
	if started, ok := e.(event.WorkerStarted); ok && node != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.pids == nil {
			c.pids = map[string]int{}
		}
		c.pids[node] = started.PID
	}
}

// workers are the nodes' workers, in the order of the nodes.
func (c *census) workers() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pids []int
	for i := range len(c.pids) {
		pids = append(pids, c.pids[fmt.Sprintf("n%d", i+1)])
	}
	return pids
}

// nodes are the processes of the nodes: their workers' parents.
func (c *census) nodes() []int {
	var pids []int
	for _, pid := range c.workers() {
		if parent, ok := parentOf(pid); ok {
			pids = append(pids, parent)
		}
	}
	return pids
}
