package arena

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"muster/internal/fault"
)

// end is what producer and consumer have in common: one side of a ring, with
// this process' own copies of whatever it decides by. The file is only ever
// believed after look has judged it.
type end struct {
	arena *Arena
	which End
	ring  uint64 // id
	data  []byte // the ring's bytes; its length is the capacity
	own   *endHeader
	peer  *endHeader
	bell  *bell

	mu     sync.Mutex // held through each operation, also while it sleeps
	mine   uint64     // own cursor
	theirs uint64     // peer's cursor as last judged
	seen   uint64     // peer's state as last judged
	closed bool       // the peer has finished or detached, or its doorbell is at its end
	dead   bool       // the peer's doorbell is at its end: it can never ring again
	broken error      // what ended this end's use, returned from then on
	gone   bool       // detached
}

// attach takes an end of the ring at p. On success both doorbell files belong
// to the end.
func (a *Arena) attach(which End, p Place, wait, ring *os.File) (*end, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory == nil {
		return nil, a.closed()
	}
	h, err := a.headerAt(p)
	if err != nil {
		return nil, err
	}
	b, err := newBell(wait, ring)
	if err != nil {
		return nil, err
	}
	start := p.Offset + grain
	e := &end{
		arena: a, which: which, ring: p.Ring, bell: b,
		data: a.memory[start : start+p.Capacity : start+p.Capacity],
		own:  &h.ends[which], peer: &h.ends[which.other()],
	}
	e.mine, e.theirs = e.own.cursor.Load(), e.peer.cursor.Load()
	if e.held(e.theirs) > p.Capacity {
		return nil, e.corrupt("it holds %d bytes of %d", e.held(e.theirs), p.Capacity)
	}
	if !e.own.state.CompareAndSwap(stateOf(p.Ring, 0), stateOf(p.Ring, attached)) {
		return nil, fault.New(fault.ArenaEndTaken, component, "ring", p.Ring, "end", which)
	}
	a.ends[e] = struct{}{}
	return e, nil
}

// headerAt judges a place that may come from anywhere and returns the header
// of the ring in it.
func (a *Arena) headerAt(p Place) (*ringHeader, error) {
	size := uint64(a.size)
	switch {
	case p.Capacity == 0 || p.Capacity&(p.Capacity-1) != 0 || p.Capacity > size:
		return nil, misplaced(p, "its capacity is %d", p.Capacity)
	case p.Offset < grain || p.Offset%grain != 0 || p.Offset > size || p.span() > size-p.Offset:
		return nil, misplaced(p, "it would take %d bytes at %d of %d", p.span(), p.Offset, size)
	}
	h := overlay[ringHeader](a.memory, p.Offset)
	magic, ring, offset, capacity := h.magic.Load(), h.ring.Load(), h.offset.Load(), h.capacity.Load()
	if magic != ringMagic || ring != p.Ring || offset != p.Offset || capacity != p.Capacity {
		return nil, fault.New(fault.ArenaRingCorrupt, component, "ring", p.Ring, "what",
			fmt.Sprintf("at %d lies ring %d of %d bytes, magic %#x", p.Offset, ring, capacity, magic))
	}
	return h, nil
}

// held is how many bytes the ring holds if the peer's cursor is there. A
// cursor that is out of range gives more than the capacity.
func (e *end) held(theirs uint64) uint64 {
	if e.which == ProducerEnd {
		return e.mine - theirs
	}
	return theirs - e.mine
}

// look judges the peer's side as it is now. The state comes before the cursor:
// where the peer has finished, the cursor seen is its last.
func (e *end) look() error {
	if e.broken != nil {
		return e.broken
	}
	state, cursor := e.peer.state.Load(), e.peer.cursor.Load()
	moved, held := cursor-e.theirs, e.held(cursor)
	switch {
	case state>>stateBits != e.ring:
		return e.corrupt("the %s's state is %#x", e.which.other(), state)
	case held > uint64(len(e.data)) || moved > uint64(len(e.data)):
		return e.corrupt("the %s's cursor went from %d to %d, the %s's is %d", e.which.other(), e.theirs, cursor, e.which, e.mine)
	case e.own.cursor.Load() != e.mine:
		return e.corrupt("somebody moved the %s's cursor from %d", e.which, e.mine)
	}
	e.theirs, e.seen = cursor, state
	e.closed = e.dead || state&(finished|detached) != 0
	return nil
}

// corrupt ends the use of this end.
func (e *end) corrupt(format string, args ...any) error {
	e.broken = fault.New(fault.ArenaRingCorrupt, component, "ring", e.ring, "what", fmt.Sprintf(format, args...))
	return e.broken
}

// await sleeps until the peer's cursor has come to cursor or the peer is
// closed. It arms the flag, looks again, and only then sleeps: whatever the
// peer does between the two looks, it either is seen or finds the flag. That
// takes a full barrier between a store here and the load that follows it, on
// both sides: a Swap, since under the race detector a Store is a release alone.
func (e *end) await(ctx context.Context, cursor uint64) error {
	armed := false
	defer func() {
		if armed { // a byte rung meanwhile stays in the pipe and wakes a later sleep in vain
			e.own.asleep.Store(0)
		}
	}()
	for {
		if err := e.look(); err != nil {
			return err
		}
		if e.closed || reached(e.theirs, cursor) {
			return nil
		}
		if !armed {
			e.own.wakeAt.Store(cursor)
			e.own.asleep.Swap(1)
			armed = true
			continue
		}
		if err := e.sleep(ctx); err != nil {
			return err
		}
		armed = false
	}
}

// sleep waits for one ring of the doorbell. Its end means that the peer is
// gone, which the next look takes in.
func (e *end) sleep(ctx context.Context) error {
	err := e.bell.wait(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		e.dead = true
		return nil
	case errors.Is(err, os.ErrClosed):
		return e.used("was detached")
	}
	return err
}

// reached reports whether a cursor is at or behind a mark, across the wrap.
func reached(cursor, mark uint64) bool { return int64(cursor-mark) >= 0 }

// advance publishes n more bytes of this end and wakes a peer that waits for
// them.
func (e *end) advance(n int) {
	e.mine += uint64(n)
	e.own.cursor.Swap(e.mine) // a barrier before the flag is read: see await
	if e.peer.asleep.Load() == 1 && reached(e.mine, e.peer.wakeAt.Load()) {
		e.wake()
	}
}

// wake rings for a sleeping peer; the compare-and-set lets one byte through a
// sleep. A peer that has gone needs none.
func (e *end) wake() {
	if e.peer.asleep.CompareAndSwap(1, 0) && !e.bell.ring() {
		e.dead = true
	}
}

// say adds bits to the own state and wakes the peer, whatever it waits for.
func (e *end) say(bits uint64) {
	for {
		word := e.own.state.Load()
		if word>>stateBits != e.ring { // corrupted or released: not ours to write
			return
		}
		if e.own.state.CompareAndSwap(word, word|bits) {
			break
		}
	}
	e.wake()
}

// detach lets go of the end for good. A use that sleeps is woken and fails; one
// that copies is waited for.
func (e *end) detach() error {
	e.bell.interrupt()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil
	}
	e.gone = true
	e.broken = e.used("was detached")
	e.say(detached)
	err := e.bell.close()
	e.arena.mu.Lock()
	delete(e.arena.ends, e)
	e.arena.mu.Unlock()
	return err
}

// used is the fault of a use after the end of use.
func (e *end) used(what string) error {
	return fault.New(fault.ArenaEndClosed, component, "ring", e.ring, "end", e.which, "what", what)
}

// left is the fault of an end whose peer has gone.
func (e *end) left() error {
	return fault.New(fault.ArenaRingClosed, component, "ring", e.ring)
}
