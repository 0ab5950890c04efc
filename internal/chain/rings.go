package chain

import (
	"context"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"muster/internal/arena"
	"muster/internal/wire"
)

// Descriptors of a stage worker, in the order in which it is born with them.
const (
	fdArena = wire.LifelineFD + 1 + iota
	fdInWait
	fdInRing
	fdOutWait
	fdOutRing
	fdStageFiles                       // its unnamed slices follow
	fdFiles      = wire.LifelineFD + 1 // of the tokenizer, which has no rings
)

// Sizes of rings in bytes. A ring holds several decode records of any model;
// larger records flow through it.
const (
	smallRing = 64 << 10
	leastRows = 256 << 10
	mostRows  = 4 << 20
)

// layRings makes the arena with one ring into each stage and one out of the
// last. Room for spare rings, in bytes each, is left.
func (c *Chain) layRings(spare ...int) error {
	n := c.stageCount()
	rows := min(max(leastRows, c.cfg.Recipe.Chunk*c.model.Width*4), mostRows)
	sizes := append([]int{smallRing}, repeat(rows, n-1)...)
	sizes = append(sizes, smallRing)
	a, err := arena.Create(arena.SizeFor(append(sizes, spare...)...))
	if err != nil {
		return err
	}
	c.arena = a
	for i, size := range sizes {
		r, err := c.addRing(size)
		if err != nil {
			return err
		}
		if i < n {
			c.into = append(c.into, r)
		}
		if i > 0 {
			c.outOf = append(c.outOf, r)
		}
	}
	return nil
}

// addRing leases one more ring.
func (c *Chain) addRing(size int) (*arena.Ring, error) {
	r, err := c.arena.NewRing(size)
	if err == nil {
		c.rings = append(c.rings, r)
	}
	return r, err
}

func repeat(v, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func (c *Chain) stageCount() int { return len(c.parts) - 1 }

// childFiles are the descriptors of stage i in the order of the constants.
func (c *Chain) childFiles(i int) []*os.File {
	in, out := c.into[i], c.outOf[i]
	return slices.Concat([]*os.File{c.arena.File()}, in.ReaderFiles(), out.WriterFiles())
}

// closeChildEnds gives up the supervisor's copies of what the workers hold, so
// that the end of a worker is seen as the end of its pipes.
func (c *Chain) closeChildEnds() {
	for i := range c.stageCount() {
		for _, f := range c.childFiles(i)[1:] {
			_ = f.Close() // a pipe end that was never written
		}
	}
}

// join attaches every stage to its rings and the server to the outer ends.
func (c *Chain) join(ctx context.Context) error {
	in, err := c.into[0].Producer()
	if err != nil {
		return err
	}
	out, err := c.outOf[len(c.outOf)-1].Consumer()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var g errgroup.Group
	for i, st := range c.stages {
		g.Go(func() error {
			_, err := st.worker.Call(ctx, wire.Request{Op: wire.OpAttach, Attach: &wire.Attach{
				ArenaFD: fdArena, ArenaSize: c.arena.Size(),
				In:  end(c.into[i], fdInWait, fdInRing),
				Out: end(c.outOf[i], fdOutWait, fdOutRing),
			}}, nil)
			if err == nil {
				_, err = st.worker.Call(ctx, wire.Request{Op: wire.OpServe}, nil)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p := newPipe(c, in, out)
	c.pipe.Store(p)
	c.serve(p)
	return nil
}

func end(r *arena.Ring, wait, ring int) wire.RingEnd {
	p := r.Lease().Place()
	return wire.RingEnd{Ring: p.Ring, Offset: p.Offset, Capacity: p.Capacity, WaitFD: wait, RingFD: ring}
}

// freeRings gives the leases back and ends the arena. The workers have been
// reaped and the server has ended: nobody holds an end.
func (c *Chain) freeRings() {
	if p := c.pipe.Load(); p != nil {
		p.detach()
	}
	for _, r := range c.rings {
		_ = r.Lease().Release(arena.ProducerEnd, arena.ConsumerEnd)
		r.CloseBells()
	}
	if c.arena != nil {
		_ = c.arena.Close()
	}
}
