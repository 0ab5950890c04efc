// Package rig holds one range of layers in one worker and drives it by hand: a
// record in, its record out.
//
//	      ring in                  ring out
//	Step ────────> muster-worker ────────> Step
//	 ids or rows    one range       rows or answers
//
// Worker, slices, rings and recipe are those of serving; there are only no
// neighbours. A rig is made, steps, and ends by Close or by its first fault,
// which every later Step returns.
//
// Start owns what it made until it returns; after that Close ends the process,
// waits for it, and frees the rings, the memory file and the slices. Two
// goroutines belong to a rig besides those of its worker: one follows the
// worker, and one each Step.
package rig

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"muster/internal/arena"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/shard"
	"muster/internal/weights"
	"muster/internal/wire"
	"muster/internal/worker"
)

// Deadlines of the phases; the one of a load follows its progress.
const (
	bootWithin = 20 * time.Second
	callWithin = 10 * time.Second
	stopWithin = 6 * time.Second
)

// logWarnings is ggml's level from which lines reach the worker's stderr.
const logWarnings = 3

// Config says what to hold and how. Tell is called for every event, from the
// goroutine of Start.
type Config struct {
	Name        string         // of the worker, in faults and events
	Engine      string         // folder of the llama.cpp libraries
	Binary      string         // muster-worker
	Source      *gguf.File     // the model; read by Start alone
	Manifest    *gguf.Manifest // of the model
	Layers      gguf.Range
	Recipe      wire.Recipe // whole but for the threads
	ThreadsMost int         // tried where the recipe leaves them open; 0 is the number of processors
	Cache       *weights.Cache
	Tell        func(event.Event)
	Log         func(line string) // engine log; nil drops it
}

// Slice is a file that was handed to the engine, and what it must hold.
type Slice struct {
	Plan *gguf.SlicePlan
	File *os.File // open for reading as long as the rig
	Size int64    // bytes
}

// Rig is a range of layers in a worker. Step may be called from one goroutine
// at a time, everything else from any.
type Rig struct {
	cfg    Config
	model  *gguf.Model
	slices []Slice
	close  []func() error
	arena  *arena.Arena
	in     *arena.Ring // into the worker
	out    *arena.Ring // out of it
	feed   *arena.Producer
	drain  *arena.Consumer
	worker *worker.Worker
	loaded wire.Loaded
	limits wire.Limits
	buf    []byte

	life     context.Context // ends with the first fault as its cause
	fail     context.CancelCauseFunc
	watchers sync.WaitGroup
	once     sync.Once
}

// Start cuts the slice, starts a worker, and has it load and serve. On a fault
// nothing is left. Faults: model.cut_refused, those of the cache, arena and
// worker families, and whatever the worker answers to Load.
func Start(ctx context.Context, cfg Config) (*Rig, error) {
	r := &Rig{cfg: cfg}
	r.life, r.fail = context.WithCancelCause(context.Background())
	if err := r.start(ctx); err != nil {
		err = r.cause(ctx, err)
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context) error {
	var err error
	if r.model, err = gguf.Inspect(r.cfg.Source); err != nil {
		return err
	}
	r.limits = shard.Limits(r.cfg.Recipe, r.model.Width, r.model.Vocabulary)
	for _, step := range []func(context.Context) error{r.cut, r.layRings, r.spawn, r.attach, r.load} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rig) first() bool { return r.cfg.Layers.Start == 0 }
func (r *Rig) last() bool  { return r.cfg.Layers.End == r.model.Layers }

// Model is the shape of the whole model.
func (r *Rig) Model() *gguf.Model { return r.model }

// Loaded is what the worker measured when it had loaded.
func (r *Rig) Loaded() wire.Loaded { return r.loaded }

// Opened is what the worker said of itself and its engine.
func (r *Rig) Opened() wire.Opened { return r.worker.Opened() }

// PID is the worker's process.
func (r *Rig) PID() int { return r.worker.PID() }

// Slices are the files that the worker was given: that of the layers, and of a
// first stage that of the embedding.
func (r *Rig) Slices() []Slice { return r.slices }

// Stats asks the worker for its figures.
func (r *Rig) Stats(ctx context.Context) (wire.Stats, error) {
	within, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	reply, err := r.worker.Call(within, wire.Request{Op: wire.OpStats}, nil)
	if err != nil {
		return wire.Stats{}, r.cause(ctx, err)
	}
	return *reply.Stats, nil
}

// spawn starts the worker with its ends of the rings and its slices.
func (r *Rig) spawn(ctx context.Context) error {
	theirs := append(r.in.ReaderFiles(), r.out.WriterFiles()...)
	files := append([]*os.File{r.arena.File()}, theirs...)
	for _, s := range r.slices {
		files = append(files, s.File)
	}
	w, err := worker.Start(ctx, worker.Spec{
		Name: r.cfg.Name, Binary: r.cfg.Binary, Engine: r.cfg.Engine, Files: files,
		Nice: worker.DefaultNice, Boot: bootWithin, LogLevel: logWarnings, Log: r.cfg.Log,
	})
	for _, f := range theirs { // so that the end of the worker is the end of its pipes
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	r.worker = w
	r.watchers.Go(r.watch)
	o := w.Opened()
	device := ""
	if len(o.Devices) > 0 {
		device = o.Devices[0].Description
	}
	r.cfg.Tell(event.WorkerStarted{Worker: r.cfg.Name, PID: o.PID, Engine: o.Engine, Device: device})
	return nil
}

// load has the worker load, run trial forwards, and serve.
func (r *Rig) load(ctx context.Context) error {
	l := &wire.Load{
		Kind: wire.LoadStage, Path: pathOf(fdSlices), First: r.first(), Last: r.last(),
		Layers: [2]int{r.cfg.Layers.Start, r.cfg.Layers.End}, Recipe: r.cfg.Recipe, ThreadsMost: r.cfg.ThreadsMost,
	}
	if l.ThreadsMost <= 0 {
		l.ThreadsMost = runtime.NumCPU()
	}
	if l.First {
		l.Embedding, l.EmbeddingScale = pathOf(fdSlices+1), r.model.EmbeddingScale
	}
	reply, err := r.worker.CallMoving(ctx, wire.Request{Op: wire.OpLoad, Load: l}, func(p wire.Progress) {
		r.cfg.Tell(event.WeightsProgressed{Worker: r.cfg.Name, Done: p.Done})
	})
	if err != nil {
		return err
	}
	if reply.Loaded == nil {
		return fault.New(fault.WorkerProtocolBroken, r.cfg.Name, "what", "load was answered without figures")
	}
	r.loaded = *reply.Loaded
	within, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if _, err := r.worker.Call(within, wire.Request{Op: wire.OpServe}, nil); err != nil {
		return err
	}
	r.cfg.Tell(event.StageLoaded{
		Worker: r.cfg.Name, Layers: l.Layers, ResidentBytes: r.loaded.ResidentBytes,
		TokenMicros: r.loaded.TokenMicros, Threads: r.loaded.Threads,
	})
	return nil
}

// Close ends the process, waits for it and frees what the rig held. It may be
// called again, and while a Step is under way, which then fails.
func (r *Rig) Close() {
	r.once.Do(func() {
		r.fail(fault.New(fault.RunInterrupted, r.cfg.Name))
		if r.worker != nil {
			ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
			defer cancel()
			_ = r.worker.Stop(ctx) // how it ended was told by Step, or matters no more
		}
		r.watchers.Wait()
		r.freeRings()
		for _, c := range r.close {
			_ = c() // read-only files: nothing is lost
		}
	})
}
