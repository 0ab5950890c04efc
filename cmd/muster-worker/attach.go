package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"muster/internal/arena"
	"muster/internal/wire"
	"muster/internal/worker/child"
)

// rings are the two ends that this worker holds.
type rings struct {
	in  *arena.Consumer
	out *arena.Producer
}

// attach joins the worker to its rings.
func (h *host) attach(a *wire.Attach) (wire.Reply, error) {
	if h.rings != nil {
		return wire.Reply{}, h.refuse("a second attach")
	}
	file, err := child.Descriptor(a.ArenaFD, "arena")
	if err != nil {
		return wire.Reply{}, err
	}
	mem, err := arena.Map(file, a.ArenaSize)
	if err != nil {
		return wire.Reply{}, err
	}
	r, err := openRings(mem, a)
	if err != nil {
		return wire.Reply{}, err
	}
	if a.Echo {
		if err := r.echo(h.ctx); err != nil {
			return wire.Reply{}, err
		}
	}
	h.rings = r
	return wire.Reply{}, nil
}

func openRings(mem *arena.Arena, a *wire.Attach) (*rings, error) {
	wait, ring, err := bells(a.In)
	if err != nil {
		return nil, err
	}
	r := &rings{}
	if r.in, err = mem.Consumer(place(a.In), wait, ring); err != nil {
		return nil, err
	}
	if wait, ring, err = bells(a.Out); err != nil {
		return nil, err
	}
	if r.out, err = mem.Producer(place(a.Out), wait, ring); err != nil {
		return nil, err
	}
	return r, nil
}

// echoWithin bounds the wait for the daemon's bytes, which are in the ring when
// it asks.
const echoWithin = 10 * time.Second

func (r *rings) echo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	var b [wire.EchoSize]byte
	if _, err := io.ReadFull(r.in.Reader(ctx), b[:]); err != nil {
		return err
	}
	wire.Echo(b[:])
	return r.out.Write(ctx, b[:])
}

// serve starts to take records in.
func (h *host) serve() (wire.Reply, error) {
	if h.model == nil || h.rings == nil {
		return wire.Reply{}, h.refuse("serve before load and attach")
	}
	if h.stats.Load() != nil {
		return wire.Reply{}, h.refuse("a second serve")
	}
	s, r := h.shard(), h.rings
	figures := s.Stats
	h.stats.Store(&figures)
	h.pump.Go(func() {
		err := s.Pump(h.ctx, r.in, r.out)
		if err == nil {
			err = errors.Join(r.in.Detach(), r.out.Detach())
		}
		if err != nil {
			h.answer(0, wire.Reply{}, err)
		}
	})
	return wire.Reply{}, nil
}

func place(e wire.RingEnd) arena.Place {
	return arena.Place{Ring: e.Ring, Offset: e.Offset, Capacity: e.Capacity}
}

// bells are the pipes by which an end is woken and wakes the other.
func bells(e wire.RingEnd) (wait, ring *os.File, err error) {
	if wait, err = child.Descriptor(e.WaitFD, "doorbell"); err != nil {
		return nil, nil, err
	}
	ring, err = child.Descriptor(e.RingFD, "doorbell")
	return wait, ring, err
}
