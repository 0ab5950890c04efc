package node

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

// running is a node under test.
type running struct {
	t     testing.TB
	o     *orchestrator
	id    id.NodeID // from the first availability on
	boot  id.BootID
	stop  context.CancelFunc
	node  *node // where a test breaks it from inside
	ended chan struct{}
	err   error // after ended is closed

	mu     sync.Mutex
	events []event.Event
	last   Status
	heard  chan struct{}
}

// config is that of a node whose worker computes nothing.
func (o *orchestrator) config(k fakeworker.Knobs) Config {
	exe, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	return Config{
		KeyPath: filepath.Join(o.t.TempDir(), "node.key"), Listen: "127.0.0.1:0",
		Orchestrator: o.endpoint.ID(), OrchestratorAddr: o.endpoint.Addr().String(),
		Engine: anEngine(o.t), Binary: exe, workerEnv: k.Env(), Version: "test",
	}
}

// anEngine is a folder with a library that nobody opens.
func anEngine(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"libnone.so", "libnone.dylib", "none.dll"} { // one is this platform's
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// realConfig is that of a node with an engine.
func (o *orchestrator) realConfig() Config {
	c := o.config(fakeworker.Knobs{})
	c.Engine, c.Binary, c.workerEnv, c.ThreadsMost = testkit.EngineDir(o.t), testkit.WorkerBinary(o.t), nil, 1
	return c
}

func (o *orchestrator) run(cfg Config) *running { return o.begin(cfg, false) }

// begin starts a node; one that is open can be broken from inside, and spoiled
// before it begins.
func (o *orchestrator) begin(cfg Config, open bool, spoil ...func(*node)) *running {
	o.t.Helper()
	r := &running{t: o.t, o: o, ended: make(chan struct{}), heard: make(chan struct{})}
	cfg.Tell = func(e event.Event) { r.hear(func() { r.events = append(r.events, e) }) }
	cfg.Status = func(s Status) { r.hear(func() { r.last = s }) }
	if open {
		checked, err := cfg.checked()
		if err != nil {
			o.t.Fatal(err)
		}
		r.node = newNode(checked, id.BootID{1})
		for _, s := range spoil {
			s(r.node)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		if r.node == nil {
			r.err = Run(ctx, cfg)
			return
		}
		r.err = r.node.live(ctx)
	}()
	o.t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

func (r *running) hear(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.heard)
	r.heard = make(chan struct{})
}

// until waits until ok, which is asked again after each event and change.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(wait)
	for {
		r.mu.Lock()
		heard := r.heard
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-heard:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s did not come; status %+v, events %+v", what, r.last, r.events)
		}
	}
}

// available waits until the node is, and the orchestrator knows it; times
// counts the attempts.
func (r *running) available(times int) {
	r.t.Helper()
	r.until("availability", func() bool {
		return r.status().Phase == "available" && count[event.NodeBecameAvailable](r) >= times
	})
	r.id, r.boot = r.status().Node, r.status().Boot
	r.o.until("NodeAvailable", func() bool { return r.o.reported(r.id, isAvailable) >= times })
}

// status is the node's latest.
func (r *running) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// count is how many events of a type the node has told.
func count[E event.Event](r *running) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

// latest is the latest event of a type, the zero one before the first.
func latest[E event.Event](r *running) (found E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			found = e
		}
	}
	return found
}

// end stops the node and returns what Run did.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	return r.outcome()
}

func (r *running) outcome() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(wait):
		r.t.Fatal("the node did not end")
		return nil
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
