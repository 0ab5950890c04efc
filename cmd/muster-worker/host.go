package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/engine"
	"muster/internal/fault"
	"muster/internal/wire"
)

// lines is the channel to the daemon.
type lines interface {
	Next() (wire.Request, error) // io.EOF when the daemon has closed it
	Send(wire.Reply) error       // from any goroutine
}

// host answers requests. Ping, stats and stop are answered at once; everything
// that touches the engine is done by one goroutine, in order.
type host struct {
	lines lines
	name  string
	jobs  chan func() // to the engine's goroutine
	ctx   context.Context
	stop  context.CancelFunc
	pump  sync.WaitGroup

	library *engine.Library
	rings   *rings                            // after Attach
	model   *model                            // after Load of a stage or whole model
	vocab   *engine.Vocabulary                // after Load of a vocabulary
	stats   atomic.Pointer[func() wire.Stats] // after Serve
}

func newHost(l lines) *host {
	h := &host{lines: l, name: "worker", jobs: make(chan func(), 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// run serves until Stop or the end of stdin, and returns the exit status.
func (h *host) run() int {
	go h.engine()
	for {
		req, err := h.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return 0
		case err != nil:
			h.answer(0, wire.Reply{}, err)
			return fault.Exit(err)
		}
		if req.Op == wire.OpStop {
			h.stop()
			h.quiesce()
			h.answer(req.ID, wire.Reply{}, nil)
			return 0
		}
		h.take(req)
	}
}

// quiesceWithin bounds the wait of Stop for a step that is being computed.
const quiesceWithin = time.Second

// quiesce waits for the pump to let go of its rings. A step that lasts longer
// is not waited for: the end of the process lets go of them too.
func (h *host) quiesce() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.pump.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(quiesceWithin):
	}
}

// engine runs the jobs; the process ends without waiting for it, since a call
// into llama.cpp cannot be broken off.
func (h *host) engine() {
	for job := range h.jobs {
		job()
	}
}

// take answers what needs no engine and hands the rest to its goroutine.
func (h *host) take(req wire.Request) {
	switch req.Op {
	case wire.OpPing:
		h.answer(req.ID, wire.Reply{}, nil)
	case wire.OpStats:
		s, err := h.figures()
		h.answer(req.ID, wire.Reply{Stats: s}, err)
	default:
		h.jobs <- func() {
			reply, err := h.do(req)
			h.answer(req.ID, reply, err)
		}
	}
}

func (h *host) do(req wire.Request) (wire.Reply, error) {
	switch {
	case req.Op == wire.OpOpen && req.Open != nil:
		return h.open(req.Open)
	case h.library == nil:
		return wire.Reply{}, h.refuse("%s before open", req.Op)
	case req.Op == wire.OpLoad && req.Load != nil:
		return h.load(req.ID, req.Load)
	case req.Op == wire.OpTrial && req.Trial != nil:
		return h.trial(req.Trial)
	case req.Op == wire.OpAttach && req.Attach != nil:
		return h.attach(req.Attach)
	case req.Op == wire.OpServe:
		return h.serve()
	case req.Op == wire.OpTokenize && req.Tokenize != nil:
		return h.tokenize(req.Tokenize)
	case req.Op == wire.OpVocab:
		return h.vocabulary()
	}
	return wire.Reply{}, h.refuse("request %q without its field", req.Op)
}

func (h *host) open(o *wire.Open) (wire.Reply, error) {
	if o.Protocol != wire.WorkerProtocol {
		return wire.Reply{}, h.refuse("protocol %d where %d is spoken", o.Protocol, wire.WorkerProtocol)
	}
	h.name = o.Name
	lib, err := engine.Load(o.Engine, func(level int, line string) {
		if level >= o.LogLevel {
			fmt.Fprintln(os.Stderr, line)
		}
	})
	if err != nil {
		return wire.Reply{}, err
	}
	h.library = lib
	return wire.Reply{Opened: &wire.Opened{
		PID: os.Getpid(), Engine: lib.Version(), System: lib.System(), Devices: lib.Devices(),
	}}, nil
}

func (h *host) tokenize(t *wire.Tokenize) (wire.Reply, error) {
	if h.vocab == nil {
		return wire.Reply{}, fault.New(fault.ModelVocabularyMissing, h.name)
	}
	ids, err := h.vocab.Tokenize(t.Text, t.Special, t.Parse)
	return wire.Reply{Tokens: ids}, err
}

func (h *host) vocabulary() (wire.Reply, error) {
	if h.vocab == nil {
		return wire.Reply{}, fault.New(fault.ModelVocabularyMissing, h.name)
	}
	v := h.vocab
	return wire.Reply{Vocab: &wire.Vocab{
		Pieces: v.Pieces(), EOG: v.EOG(), BOS: v.BOS(), Template: v.Template(),
	}}, nil
}

// figures are those of the shard once it serves, and of the process.
func (h *host) figures() (*wire.Stats, error) {
	s := wire.Stats{}
	if f := h.stats.Load(); f != nil {
		s = (*f)()
	}
	var err error
	s.ResidentBytes, err = resident()
	return &s, err
}

// answer sends a reply. A daemon that no longer listens is gone or going: the
// lifeline ends this process.
func (h *host) answer(id uint64, r wire.Reply, err error) {
	r.ID = id
	if err != nil {
		f := *fault.From(err)
		f.Component = h.name // a person knows workers, not their packages
		r = wire.Reply{ID: id, Fault: &f}
	}
	_ = h.lines.Send(r)
}

func (h *host) refuse(format string, args ...any) error {
	return fault.New(fault.WorkerProtocolBroken, h.name, "what", fmt.Sprintf(format, args...))
}
