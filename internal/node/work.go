package node

import (
	"context"
	"sync"

	"muster/internal/core/stage"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/weights"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// work is what the node holds for one order: from the rings to the pumps. Its
// fields are written by one of its goroutines and read by those that start
// after the core was told.
type work struct {
	order     stage.Order
	asked     *controlpb.Provision
	announced announced
	ctx       context.Context
	cancel    context.CancelFunc
	tasks     sync.WaitGroup // everything that touches slices, rings and streams

	handed chan struct{} // closed where another work takes over what this one holds

	crew              *crew         // the mailbox's, from preparing on
	arrival           *edge.Arrival // of the in-edge, from preparing on
	model             *gguf.Model   // from fetching on
	manifest          *gguf.Manifest
	cells             uint64 // keys and values that a token has in the KV cache of these layers
	body              *handed
	embedding         *handed     // of the first stage
	loaded            wire.Loaded // from loading on
	inMeter, outMeter edge.Meter
}

// handed is a file that the engine is given, and what it must hold.
type handed struct {
	*weights.Slice
	plan *gguf.SlicePlan
}

func newWork(life context.Context, o stage.Order, asked *controlpb.Provision, said announced) *work {
	w := &work{order: o, asked: asked, announced: said, handed: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(life)
	return w
}

func (w *work) first() bool { return w.asked.GetStage() == 0 }
func (w *work) last() bool  { return w.asked.GetStage()+1 == w.asked.GetStages() }

func (w *work) layers() gguf.Range {
	r := w.asked.GetLayers().Range()
	return gguf.Range{Start: r[0], End: r[1]}
}

// ready is what is told of a stage that has run a forward and is joined.
func (w *work) ready() *controlpb.StageReady {
	return &controlpb.StageReady{
		RunId: controlpb.ID(w.order.Run), Attempt: w.order.Attempt, Layers: w.asked.GetLayers(),
		ResidentBytes: w.loaded.ResidentBytes, TokenMicros: w.loaded.TokenMicros, Threads: uint32(w.loaded.Threads),
		ChunkMicros: w.loaded.ChunkMicros, ChunkTokens: uint32(w.loaded.ChunkTokens),
	}
}

// begin starts a work of the stage, which answers with an event or a fault.
func (n *node) begin(do func(*node, *work) (stage.Event, error)) {
	w := n.work
	w.tasks.Go(func() {
		e, err := do(n, w)
		switch {
		case w.ctx.Err() != nil: // torn down: nobody asks any more
		case err != nil:
			n.tell(worked{stage.StageFailed{Order: w.order, Fault: fault.From(err)}})
		case e != nil:
			n.tell(worked{e})
		}
	})
}
