package node

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/arena"
	"muster/internal/fault"
)

// ringSize is what a ring holds, in bytes: several decode records of any model.
// Larger ones flow through it.
const ringSize = 1 << 20

// proveArena makes the memory file, leases the worker's two rings in it, and
// gives them back with proof that both ends have let go.
func (n *node) proveArena(_ context.Context, a *attempt) (string, error) {
	// Room for the rings of a next crew while those of the former may be held.
	mem, err := arena.Create(arena.SizeFor(ringSize, ringSize, ringSize, ringSize))
	if err != nil {
		return "", err
	}
	a.arena = mem
	var rings []*arena.Ring
	for range 2 {
		r, err := mem.NewRing(ringSize)
		if err != nil {
			closeRings(rings)
			return "", err
		}
		rings = append(rings, r)
	}
	for _, r := range rings {
		if err := use(r); err != nil {
			closeRings(rings)
			return "", err
		}
	}
	return fmt.Sprintf("%d KiB mapped, two rings leased and given back", mem.Size()>>10), nil
}

// use sends a few bytes through the ring within this process and gives it back.
func use(r *arena.Ring) error {
	in, err := r.Producer()
	if err != nil {
		return err
	}
	out, err := r.Consumer()
	if err != nil {
		return errors.Join(err, in.Detach())
	}
	sent := []byte("muster")
	got := make([]byte, len(sent))
	err = in.Write(context.Background(), sent) // there is room: it does not wait
	if err == nil {
		_, err = out.Read(context.Background(), got)
	}
	err = errors.Join(err, in.Detach(), out.Detach())
	if err == nil && string(got) != string(sent) {
		err = fault.New(fault.NodeEchoBroken, component, "what", "other bytes came out of a ring than went in")
	}
	return errors.Join(err, r.Lease().Release())
}

func closeRings(rings []*arena.Ring) {
	for _, r := range rings {
		r.CloseBells() // the arena ends their leases
	}
}
