package local

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/identity"
	"muster/internal/infer"
	"muster/internal/machine"
	"muster/internal/orch"
	"muster/internal/store"
	"muster/internal/wire"
)

// Deadlines. Those of a run's phases are the orchestrator's.
const (
	mostNodes   = 256 // a stage has a layer at least, and no model has more
	formWithin  = 30 * time.Second
	drainWithin = time.Second     // who closes a pool has had the answers
	stopWithin  = 3 * time.Second // a run that ends in order
	leaveWithin = 3 * time.Second // a node that was told to
	closeWithin = 5 * time.Second
	endWithin   = 500 * time.Millisecond // a process' end comes to light
)

// Config says what to run. Tell and Log are called from several goroutines and
// must not block; Log may be nil.
type Config struct {
	Nodes       int
	Model       orch.Model
	Recipe      wire.Recipe
	Cuts        []int  // layers at which to cut; nil leaves it to the planner
	Data        string // folder of keys, store and slices; "" keeps nothing on disk
	Engine      string // folder of the llama.cpp libraries
	Binary      string // muster-worker
	Program     string // muster itself
	Version     string
	ThreadsMost int // of a node, for a recipe that leaves them open

	Tell func(node string, e event.Event) // node is "" for the orchestrator's
	Log  func(of, line string)            // lines of engines
}

// Pool is a pool that serves.
type Pool struct {
	cfg   Config
	orch  *orch.Orch
	nodes []*child

	served   chan struct{} // closed when requests are taken
	stages   atomic.Bool   // they serve
	text     atomic.Bool   // prompts can be read
	serving  sync.Once
	failed   chan struct{} // closed by the first fault
	failOnce sync.Once
	fault    *fault.Fault      // written before failed closes
	died     chan *fault.Fault // of the first process that ended by no word of its own; room for one
	closing  chan struct{}
	ending   sync.Once
	tasks    sync.WaitGroup
	closed   error
}

// Start starts the orchestrator and the nodes and returns once they run: what
// forms can be looked at meanwhile. On an error nothing is left. Faults: those of
// an orchestrator's start; node.spawn_failed.
func Start(ctx context.Context, cfg Config) (*Pool, error) {
	if cfg.Nodes < 1 || cfg.Nodes > mostNodes {
		return nil, fault.New(fault.CLIFlagInvalid, "", "flag", "--nodes", "value", cfg.Nodes, "want", fmt.Sprintf("give a number from 1 to %d", mostNodes))
	}
	p := &Pool{cfg: cfg, served: make(chan struct{}), failed: make(chan struct{}), closing: make(chan struct{}), died: make(chan *fault.Fault, 1)}
	if err := p.start(ctx); err != nil {
		_ = p.Close(context.WithoutCancel(ctx)) // why it did not come to be is what counts
		return nil, err
	}
	return p, nil
}

// Await returns once the pool serves. Faults: those of a run and of a node's boot,
// pool.formation_overdue; node.process_ended, node.process_stopped. Close is the
// caller's.
func (p *Pool) Await(ctx context.Context) error {
	select {
	case <-p.served:
		return nil
	case <-p.failed:
		return p.Fault()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Pool) start(ctx context.Context) error {
	keys, err := p.keys()
	if err != nil {
		return err
	}
	nodes := make([]store.Node, 0, p.cfg.Nodes)
	for i, key := range keys[1:] {
		nodes = append(nodes, store.Node{ID: id.NodeIDOf(key.Public().(ed25519.PublicKey)), Name: nodeName(i)})
	}
	p.orch, err = orch.Start(ctx, orch.Config{
		Key: keys[0], DataDir: p.folder("orchestrator"), Listen: "127.0.0.1:0", Version: p.cfg.Version,
		Pool: store.Pool{Name: "local", Nodes: nodes}, Model: p.cfg.Model, Recipe: p.cfg.Recipe,
		Stages: [2]int{p.cfg.Nodes, p.cfg.Nodes}, Cuts: p.cfg.Cuts,
		Profile: "local", Policy: orch.Policy{Formation: formWithin, Once: true}, Drain: drainWithin,
		Engine: p.cfg.Engine, Binary: p.cfg.Binary, Tell: p.hear, Log: p.cfg.Log,
	})
	if err != nil {
		return err
	}
	p.tasks.Go(p.watchOrchestrator)
	for i, key := range keys[1:] {
		if err := p.spawn(i, key); err != nil {
			return err
		}
	}
	return nil
}

// keys are the orchestrator's and then the nodes': from the data folder, or
// made for this once.
func (p *Pool) keys() ([]ed25519.PrivateKey, error) {
	names := []string{"orchestrator"}
	for i := range p.cfg.Nodes {
		names = append(names, nodeName(i))
	}
	keys := make([]ed25519.PrivateKey, 0, len(names))
	for _, name := range names {
		key, err := identity.Make()
		if p.cfg.Data != "" {
			key, err = identity.LoadOrMake(filepath.Join(p.folder(name), "key"))
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// DataDir is the orchestrator's folder, "" where it has none.
func (p *Pool) DataDir() string { return p.folder("orchestrator") }

func (p *Pool) folder(name string) string {
	if p.cfg.Data == "" {
		return ""
	}
	return filepath.Join(p.cfg.Data, name)
}

// spawn starts a node. The machine's memory and processors are shared equally.
func (p *Pool) spawn(i int, key ed25519.PrivateKey) error {
	name := nodeName(i)
	args := []string{
		"node", "--json", "--tied", "--key", "-", "--data", p.folder(name), "--listen", "127.0.0.1:0",
		"--orchestrator", p.orch.ID().String() + "@" + p.orch.Address(), "--engine", p.cfg.Engine,
		"--threads-most", fmt.Sprint(p.cfg.ThreadsMost), "--once", // nothing here mends by waiting
	}
	if free, ok := machine.MeasureMemory(); ok {
		args = append(args, "--memory", fmt.Sprint(free.Available/uint64(p.cfg.Nodes)))
	}
	if p.cfg.Log != nil {
		args = append(args, "--engine-log")
	}
	c, err := startChild(name, p.cfg.Program, args, key, p.cfg.Tell, p.cfg.Log)
	if err != nil {
		return err
	}
	p.nodes = append(p.nodes, c)
	p.tasks.Go(func() {
		c.watch(p.fail)
	})
	return nil
}

// hear follows the one run that is formed.
func (p *Pool) hear(e event.Event) {
	p.cfg.Tell("", e)
	switch e := e.(type) {
	case event.RunServed:
		p.stages.Store(true)
		p.open()
	case event.TokenizerStarted:
		p.text.Store(true)
		p.open()
	case event.RunEnded:
		p.fail(e.Fault)
	case event.PoolFormationEnded:
		p.fail(e.Fault)
	}
}

// open says that requests are taken, once there is all they need.
func (p *Pool) open() {
	if p.stages.Load() && p.text.Load() {
		p.serving.Do(func() { close(p.served) })
	}
}

func (p *Pool) watchOrchestrator() {
	select {
	case <-p.orch.Done():
		p.fail(fault.From(p.orch.Err()))
	case <-p.closing:
	}
}

// fail keeps the first fault; nil is none, and at the end none counts.
func (p *Pool) fail(f *fault.Fault) {
	select {
	case <-p.closing:
		return
	default:
	}
	if f != nil && f.Code == fault.NodeProcessEnded {
		select {
		case p.died <- f:
		default:
		}
	}
	if f != nil {
		p.failOnce.Do(func() {
			p.fault = f
			close(p.failed)
		})
	}
}

// Failed is closed by the first fault.
func (p *Pool) Failed() <-chan struct{} { return p.failed }

// Fault is the first fault, after Failed is closed. The end of a node's process
// explains what the others tell of it, and comes to light a little later.
func (p *Pool) Fault() *fault.Fault {
	if p.fault.Code == fault.NodeProcessEnded {
		return p.fault
	}
	select {
	case f := <-p.died:
		p.died <- f // for who asks next
		return f
	case <-time.After(endWithin):
		return p.fault
	}
}

// Orch is the orchestrator, for those who ask it more.
func (p *Pool) Orch() *orch.Orch { return p.orch }

// Generate answers a prompt; see orch.Orch.Generate. A request that was refused
// leaves the pool as it is; one that came after the pool's fault fails with it.
func (p *Pool) Generate(ctx context.Context, r orch.Request, emit func(text string, a wire.Answer) error) (infer.Result, error) {
	res, err := p.orch.Generate(ctx, r, emit)
	return res, p.cause(err)
}

// cause is the pool's fault in place of a refusal that only follows from it.
func (p *Pool) cause(err error) error {
	var of *fault.Fault
	switch {
	case err == nil || !p.hasFailed() || !errors.As(err, &of):
		return err
	case of.Code == fault.OrchRequestRefused || of.Code == p.fault.Code:
		return p.Fault()
	}
	return err
}

// Close ends the run, the nodes and the orchestrator, and waits until nothing
// is left of them. A pool that has failed is not asked to end in order: the end
// of its processes frees all they hold. It may be called again.
func (p *Pool) Close(ctx context.Context) error {
	p.ending.Do(func() {
		failed := p.hasFailed()
		close(p.closing)
		if p.orch != nil && !failed {
			stopping, cancel := context.WithTimeout(ctx, stopWithin)
			_ = p.orch.Stop(stopping, true) // the processes end anyway
			cancel()
		}
		var g errgroup.Group
		for _, c := range p.nodes {
			g.Go(func() error { c.end(leaveWithin); return nil })
		}
		_ = g.Wait() // nothing of it fails
		if p.orch != nil {
			ending, cancel := context.WithTimeout(ctx, closeWithin)
			p.closed = p.orch.Close(ending)
			cancel()
		}
		p.tasks.Wait()
	})
	return p.closed
}

func (p *Pool) hasFailed() bool {
	select {
	case <-p.failed:
		return true
	default:
		return false
	}
}
