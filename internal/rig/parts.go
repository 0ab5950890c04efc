package rig

import (
	"context"
	"fmt"
	"time"

	"muster/internal/arena"
	"muster/internal/event"
	"muster/internal/gguf"
	"muster/internal/wire"
)

// Descriptors of the worker, in the order in which it is born with them.
const (
	fdArena = wire.LifelineFD + 1 + iota
	fdInWait
	fdInRing
	fdOutWait
	fdOutRing
	fdSlices // of the layers, then of the embedding
)

// Bounds of a ring in bytes. Larger records flow through it.
const (
	leastRing = 64 << 10
	mostRing  = 4 << 20
)

// tellEvery bounds how often progress is told.
const tellEvery = 100 * time.Millisecond

func pathOf(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// cut makes the slices of the range.
func (r *Rig) cut(ctx context.Context) error {
	l := r.cfg.Layers
	plan, err := gguf.PlanSlice(r.cfg.Source, r.model, l)
	if err != nil {
		return err
	}
	if err := r.slice(ctx, plan, fmt.Sprintf("layers %d to %d", l.Start, l.End-1)); err != nil || !r.first() {
		return err
	}
	if plan, err = gguf.PlanEmbedding(r.cfg.Source, r.model); err != nil {
		return err
	}
	return r.slice(ctx, plan, "embedding")
}

func (r *Rig) slice(ctx context.Context, plan *gguf.SlicePlan, what string) error {
	s, err := r.cfg.Cache.Slice(ctx, plan, r.cfg.Source, r.cfg.Manifest, r.progress(what))
	if err != nil {
		return err
	}
	r.close = append(r.close, s.Close)
	r.slices = append(r.slices, Slice{Plan: plan, File: s.File(), Size: s.Size()})
	r.cfg.Tell(event.SliceReady{Slice: what, Bytes: s.Size(), Cached: !s.Made, Replaced: s.Replaced})
	return nil
}

func (r *Rig) progress(what string) func(done, total int64) {
	var last time.Time
	return func(done, total int64) {
		if now := time.Now(); now.Sub(last) >= tellEvery {
			last = now
			r.cfg.Tell(event.SliceProgressed{Slice: what, Done: done, Total: total})
		}
	}
}

// layRings makes the memory file with its two rings, and takes this process's
// ends of them.
func (r *Rig) layRings(context.Context) error {
	size := min(max(leastRing, r.cfg.Recipe.Chunk*r.model.Width*4), mostRing)
	var err error
	if r.arena, err = arena.Create(arena.SizeFor(size, size)); err != nil {
		return err
	}
	if r.in, err = r.arena.NewRing(size); err != nil {
		return err
	}
	if r.out, err = r.arena.NewRing(size); err != nil {
		return err
	}
	if r.feed, err = r.in.Producer(); err != nil {
		return err
	}
	r.drain, err = r.out.Consumer()
	return err
}

// attach hands the worker its ends.
func (r *Rig) attach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, err := r.worker.Call(ctx, wire.Request{Op: wire.OpAttach, Attach: &wire.Attach{
		ArenaFD: fdArena, ArenaSize: r.arena.Size(),
		In: ringEnd(r.in, fdInWait, fdInRing), Out: ringEnd(r.out, fdOutWait, fdOutRing),
	}}, nil)
	return err
}

func ringEnd(r *arena.Ring, wait, bell int) wire.RingEnd {
	p := r.Lease().Place()
	return wire.RingEnd{Ring: p.Ring, Offset: p.Offset, Capacity: p.Capacity, WaitFD: wait, RingFD: bell}
}

// freeRings ends the memory file. The worker has been reaped.
func (r *Rig) freeRings() {
	if r.feed != nil {
		_ = r.feed.Detach() // only the ring's own bookkeeping can fail, and the arena ends next
	}
	if r.drain != nil {
		_ = r.drain.Detach()
	}
	for _, ring := range []*arena.Ring{r.in, r.out} {
		if ring != nil {
			ring.CloseBells()
		}
	}
	if r.arena != nil {
		_ = r.arena.Close()
	}
}
