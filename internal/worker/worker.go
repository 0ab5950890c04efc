// Package worker is the daemon's side of a child process: it starts one,
// converses with it over the worker protocol, notices its end and ends it.
// It knows nothing of engines, models or rings, and decides nothing about what
// is to happen after a worker's death. What a worker process does for its part
// stands in package child.
//
//	Start ──> booting ──Opened──> serving ──Stop──> stopping ──> gone
//	             │                   │                 │
//	             └─ overdue, death ──┴─ death ─────────┴─ TERM, KILL ──^
//
// Three goroutines belong to a Worker. The keeper starts the process, waits for
// its end and alone says so; hear reads stdout; follow reads stderr. All end
// when the process has ended, and Done is closed after them. A Worker is owned
// by whoever called Start, who must call Stop.
//
// No process outlives its daemon: the kernel kills the child when the keeper's
// thread dies (parent-death signal) and kills the child's whole group, stopped
// processes too, when the daemon's end of the lifeline closes. What left the
// group by setsid or setpgid is out of reach; the engine starts no such thing.
package worker

import (
	"context"
	"os"
	"sync"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// DefaultNice is the priority of workers below the daemon, so that compute
// never starves probes.
const DefaultNice = 5

const (
	defaultBoot  = 20 * time.Second
	defaultGrace = 2 * time.Second

	// dying bounds the end of a process that has been sent KILL or has closed
	// its stdin or stdout: freeing the memory of a large shard takes a while.
	dying = 5 * time.Second

	// lastWords bounds the reading of what an ended process has left in its
	// pipes.
	lastWords = 2 * time.Second
)

// Spec says what to start.
type Spec struct {
	Name   string     // component in faults, such as "worker 1"
	Binary string     // path of muster-worker
	Engine string     // folder of the llama.cpp libraries, told in Open
	Files  []*os.File // become descriptors wire.LifelineFD+1, +2, ... of the child, in blocking mode; the caller closes its own
	Env    []string   // KEY=value, over the daemon's environment

	Nice     int           // added to the daemon's priority; 0 leaves it
	Boot     time.Duration // from start to Opened; 0 means 20 s
	Grace    time.Duration // each wait of Stop: for the answer and end, then for the end after TERM; 0 means 2 s
	LogLevel int           // least ggml level sent to stderr, told in Open

	// Log is told each line of stderr by one goroutine. nil drops them; a slow
	// one holds the child up.
	Log func(line string)
}

// Worker is a running child process.
type Worker struct {
	spec   Spec
	group  group
	pipes  *pipes
	tail   tail
	calls  calls
	pen    chan struct{} // holds one token: whoever writes to stdin has it
	faults chan *fault.Fault
	ended  chan struct{} // closed when the process has ended, before its last words are read
	done   chan struct{}
	opened wire.Opened // written by Start before it returns

	mu       sync.Mutex
	serving  bool         // Opened has come
	stopping bool         // the end has been asked for
	verdict  *fault.Fault // why the process is being killed; the first reason stands
	exit     *fault.Fault // written before done is closed
}

// Start starts a child and waits until it has answered Open. ctx bounds the
// start alone. On an error the child is gone. Faults: worker.binary_missing,
// worker.spawn_failed, worker.library_missing, worker.boot_overdue,
// worker.stopped, worker.exited, worker.killed, worker.protocol_broken,
// run.interrupted, platform.unsupported, and whatever the child answers to
// Open.
func Start(ctx context.Context, s Spec) (*Worker, error) {
	if s.Boot <= 0 {
		s.Boot = defaultBoot
	}
	if s.Grace <= 0 {
		s.Grace = defaultGrace
	}
	w, err := spawn(s)
	if err != nil {
		return nil, err
	}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// open says Open. Where that fails it ends the process.
func (w *Worker) open(ctx context.Context) error {
	began := time.Now()
	boot, cancel := context.WithTimeout(ctx, w.spec.Boot)
	defer cancel()
	reply, err := w.Call(boot, wire.Request{Op: wire.OpOpen, Open: &wire.Open{
		Protocol: wire.WorkerProtocol,
		Name:     w.spec.Name,
		Engine:   w.spec.Engine,
		LogLevel: w.spec.LogLevel,
	}}, nil)
	if err == nil {
		w.opened = *reply.Opened
		w.mu.Lock()
		w.serving = true
		w.mu.Unlock()
		return nil
	}
	f := fault.From(err)
	if f.Code == fault.WorkerCallOverdue {
		f = fault.New(fault.WorkerBootOverdue, w.spec.Name, "waited", since(began), "log", w.tail.String())
	}
	w.condemn(f)
	w.gone(dying)
	return f
}

// Opened is what the child said of itself and its engine.
func (w *Worker) Opened() wire.Opened { return w.opened }

// PID is the child's process id, which is also its process group.
func (w *Worker) PID() int { return w.group.pid }

// Faults tells what the child reports unasked, then is closed at its end.
func (w *Worker) Faults() <-chan *fault.Fault { return w.faults }

// Done is closed when the process has ended and its last words are read.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Exit says why the process ended: nil after a stop that was asked for, and
// before Done is closed.
func (w *Worker) Exit() *fault.Fault {
	select {
	case <-w.done:
		return w.exit
	default:
		return nil
	}
}

// State says what the process is doing, for a fault about something it owes:
// "running", "stopped by SIGSTOP" (or another stop signal) or "ended".
func (w *Worker) State() string {
	if sig := w.group.stoppedBy(); sig != "" {
		return "stopped by " + sig
	}
	select {
	case <-w.ended:
		return "ended"
	default:
		return "running"
	}
}

// condemn kills the process group because of f.
func (w *Worker) condemn(f *fault.Fault) {
	w.mu.Lock()
	if w.verdict == nil {
		w.verdict = f
	}
	w.mu.Unlock()
	w.group.kill()
}

// gone waits for Done, at most for the given time.
func (w *Worker) gone(most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-w.done:
		return true
	case <-t.C:
		return false
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
