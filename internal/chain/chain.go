// Package chain serves one model with worker processes on this machine, joined
// by rings in one memory file, under one supervisor.
//
//	        ring 0          ring 1                  ring N
//	server --------> worker 1 --------> ... worker N --------> server
//	         tokens            rows                   answers
//
// A chain is made, serves, and ends by Stop or by its first fault; there is no
// way back. The first fault is kept as the cause of everything that fails after
// it, and names the worker that failed, not the neighbours that noticed.
//
// Start owns what it made until it returns; after that Stop ends the processes,
// waits for them, and frees the rings, the memory file and the slices.
package chain

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/arena"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/weights"
	"muster/internal/wire"
	"muster/internal/worker"
)

// Deadlines of the phases.
const (
	bootWithin = 20 * time.Second
	callWithin = 10 * time.Second
	stopWithin = 3 * time.Second
)

// Model names the weights. File is set where they have no path of their own.
type Model struct {
	Name string
	Path string
	File *os.File
}

// Config says what to serve and how. Tell is called for every event, from any
// goroutine, and must not block.
type Config struct {
	Model   Model
	Workers int
	Cuts    []int // layers at which to cut, in place of an even split; nil splits evenly
	Whole   bool  // one worker holds the unsliced model: the yardstick of chains
	Recipe  wire.Recipe
	Engine  string // folder of the llama.cpp libraries
	Binary  string // muster-worker
	Cache   *weights.Cache
	Tell    func(event.Event)
	Log     func(worker, line string) // engine log, line by line; nil drops it
}

// Stage is what one worker of a chain holds.
type Stage struct {
	Worker        string `json:"worker"`
	Layers        [2]int `json:"layers"`
	ResidentBytes uint64 `json:"resident_bytes"`
}

// Chain is a model being served.
type Chain struct {
	cfg    Config
	model  *gguf.Model
	parts  []part
	close  []func() error
	arena  *arena.Arena
	rings  []*arena.Ring // all of them
	into   []*arena.Ring // by stage
	outOf  []*arena.Ring // by stage: the next one's into
	stages []*stage
	tokens *worker.Worker // the tokenizer
	words  *infer.Words
	pipe   atomic.Pointer[pipe]
	server *infer.Server // nil before the stages are joined

	failed   chan struct{} // closed by the first fault
	failOnce sync.Once
	fault    *fault.Fault // written before failed closes
	stopping chan struct{}
	stopOnce sync.Once
	watchers sync.WaitGroup
}

type stage struct {
	name   string
	layers gguf.Range
	worker *worker.Worker
	loaded wire.Loaded
}

// Start forms the chain. On a fault nothing of it is left.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	began := time.Now()
	c := newChain(cfg)
	err := c.start(ctx)
	if err != nil {
		err = c.cause(err)
		c.Stop()
		return nil, err
	}
	cfg.Tell(event.ChainReady{Workers: len(c.stages), Took: time.Since(began)})
	return c, nil
}

func newChain(cfg Config) *Chain {
	return &Chain{cfg: cfg, failed: make(chan struct{}), stopping: make(chan struct{})}
}

// Failed is closed by the first fault.
func (c *Chain) Failed() <-chan struct{} { return c.failed }

// Fault is the first fault, after Failed is closed.
func (c *Chain) Fault() *fault.Fault { return c.fault }

func (c *Chain) start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.layRings(); err != nil {
		return err
	}
	if err := c.spawn(ctx); err != nil {
		return err
	}
	if err := c.load(ctx); err != nil {
		return err
	}
	return c.join(ctx)
}

// spawn starts all workers at once and the tokenizer with them.
func (c *Chain) spawn(ctx context.Context) error {
	c.stages = make([]*stage, len(c.parts)-1)
	g, ctx := errgroup.WithContext(ctx)
	for i := range c.parts {
		p := &c.parts[i]
		g.Go(func() error {
			files := p.files()
			if p.stage >= 0 {
				files = append(c.childFiles(p.stage), files...)
			}
			w, err := worker.Start(ctx, worker.Spec{
				Name: p.name, Binary: c.cfg.Binary, Engine: c.cfg.Engine, Files: files,
				Nice: 5, Boot: bootWithin, LogLevel: logWarnings, Log: c.logger(p.name),
			})
			if err != nil {
				return err
			}
			if p.stage < 0 {
				c.tokens = w
				return nil
			}
			c.stages[p.stage] = &stage{name: p.name, layers: p.layers, worker: w}
			o := w.Opened()
			c.cfg.Tell(event.WorkerStarted{Worker: p.name, PID: o.PID, Engine: o.Engine, Device: deviceName(o.Devices)})
			return nil
		})
	}
	err := g.Wait()
	c.closeChildEnds()
	c.watch()
	return err
}

// logWarnings is ggml's level from which lines reach the worker's stderr.
const logWarnings = 3

func (c *Chain) logger(name string) func(string) {
	if c.cfg.Log == nil {
		return nil
	}
	return func(line string) { c.cfg.Log(name, line) }
}

func deviceName(devices []wire.Device) string {
	if len(devices) == 0 {
		return ""
	}
	return devices[0].Description
}

// Generate answers a prompt, calling emit with the text of each token as it
// comes; text may be empty while a character is not whole. Without req.Ends the
// vocabulary's own ids end it. As many calls as there are slots are served at
// once; see infer.Server.Generate.
func (c *Chain) Generate(ctx context.Context, req infer.Request, emit func(text string, a wire.Answer) error) (infer.Result, error) {
	if req.Ends == nil {
		req.Ends = c.words.Ends
	}
	text := c.words.Text()
	res, err := c.server.Generate(ctx, req, func(a wire.Answer) error {
		return emit(text.Add(a.Token), a)
	})
	if err != nil {
		return res, c.cause(err)
	}
	if rest := text.End(); rest != "" {
		return res, emit(rest, wire.Answer{Token: -1})
	}
	return res, nil
}

// Tokenize gives the ids of a text, with what the vocabulary adds by itself.
func (c *Chain) Tokenize(ctx context.Context, text string) ([]int32, error) {
	if err := c.words.Check(text, c.cfg.Recipe.Share()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	reply, err := c.tokens.Call(ctx, wire.Request{Op: wire.OpTokenize, Tokenize: &wire.Tokenize{Text: text, Special: true, Parse: true}}, nil)
	if err != nil {
		return nil, c.cause(err)
	}
	return reply.Tokens, nil
}

// Stages says which worker holds what, with its memory now.
func (c *Chain) Stages(ctx context.Context) ([]Stage, error) {
	out := make([]Stage, len(c.stages))
	for i, st := range c.stages {
		ctx, cancel := context.WithTimeout(ctx, callWithin)
		reply, err := st.worker.Call(ctx, wire.Request{Op: wire.OpStats}, nil)
		cancel()
		if err != nil {
			return nil, c.cause(err)
		}
		if reply.Stats == nil {
			return nil, fault.New(fault.WorkerProtocolBroken, st.name, "what", "no figures were told")
		}
		out[i] = Stage{Worker: st.name, Layers: pair(st.layers), ResidentBytes: reply.Stats.ResidentBytes}
	}
	return out, nil
}

// PIDs are the processes of the chain, stages first, the tokenizer last.
func (c *Chain) PIDs() []int {
	var pids []int
	for _, st := range c.stages {
		pids = append(pids, st.worker.PID())
	}
	return append(pids, c.tokens.PID())
}

// Stop ends every process, waits for it and frees what the chain held. It may
// be called again, and from another goroutine while Generate runs.
func (c *Chain) Stop() {
	c.stopOnce.Do(func() {
		close(c.stopping)
		c.stopWorkers()
		c.watchers.Wait()
		if c.server != nil {
			c.server.Close(fault.New(fault.RunInterrupted, ""))
		}
		c.freeRings()
		for i := len(c.close) - 1; i >= 0; i-- {
			_ = c.close[i]() // read-only files: nothing is lost
		}
	})
}

func (c *Chain) stopWorkers() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var g errgroup.Group
	for _, w := range c.workers() {
		g.Go(func() error { return w.Stop(ctx) })
	}
	_ = g.Wait() // Stop reports how a worker ended; by now it is gone either way
}

func (c *Chain) workers() []*worker.Worker {
	var ws []*worker.Worker
	for _, st := range c.stages {
		if st != nil {
			ws = append(ws, st.worker)
		}
	}
	if c.tokens != nil {
		ws = append(ws, c.tokens)
	}
	return ws
}

func workerName(stage int) string { return fmt.Sprintf("worker %d", stage+1) }
