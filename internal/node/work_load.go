package node

import (
	"fmt"
	"runtime"
	"time"

	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/wire"
)

// load has the worker load its slices and run a forward through them, and then
// serve: what comes through the rings from now on is computed.
func (n *node) load(w *work) (stage.Event, error) {
	if most, asked := runtime.NumCPU(), int(w.asked.GetRecipe().GetThreads()); asked > most {
		return nil, fault.New(fault.RecipeInvalid, workerName, "field", "threads", "value", asked,
			"want", fmt.Sprintf("this machine has %d processors, and more threads than that stand in one another's way: give %d, or 0 to have it measured", most, most))
	}
	r := w.layers()
	l := &wire.Load{
		Kind: wire.LoadStage, Path: pathOf(w.body.File()), First: w.first(), Last: w.last(), Layers: [2]int{r.Start, r.End},
		Recipe: w.asked.GetRecipe().Wire(), ThreadsMost: n.cfg.ThreadsMost,
	}
	if l.ThreadsMost <= 0 {
		l.ThreadsMost = runtime.NumCPU()
	}
	if w.embedding != nil {
		l.Embedding, l.EmbeddingScale = pathOf(w.embedding.File()), w.model.EmbeddingScale
	}
	var last time.Time
	reply, err := w.crew.worker.Call(w.ctx, wire.Request{Op: wire.OpLoad, Load: l}, func(p wire.Progress) {
		if now := time.Now(); now.Sub(last) >= tellEvery {
			last = now
			n.cfg.Tell(event.WeightsProgressed{Worker: workerName, Done: p.Done})
			const whole = 1000
			n.progressed(w, stage.Loading, int64(p.Done*whole), whole, fmt.Sprintf("layers %d to %d", r.Start, r.End-1))
		}
	})
	if err != nil {
		return nil, err
	}
	if reply.Loaded == nil {
		return nil, fault.New(fault.WorkerProtocolBroken, workerName, "what", "load was answered without figures")
	}
	w.loaded = *reply.Loaded
	if _, err := w.crew.worker.Call(w.ctx, wire.Request{Op: wire.OpServe}, nil); err != nil {
		return nil, err
	}
	n.cfg.Tell(event.StageLoaded{
		Worker: workerName, Layers: l.Layers,
		ResidentBytes: w.loaded.ResidentBytes, TokenMicros: w.loaded.TokenMicros, Threads: w.loaded.Threads,
	})
	return stage.Loaded{Order: w.order}, nil
}
