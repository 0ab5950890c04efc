package arena

import (
	"fmt"
	"math/bits"
	"slices"

	"muster/internal/fault"
)

// Place is what an end must know of a ring. It crosses processes.
type Place struct {
	Ring     uint64 // id, from 1, never reused within an arena
	Offset   uint64 // of the ring's header, bytes from the start of the file
	Capacity uint64 // bytes of data, a power of two
}

// Lease is the owner's hold on the range of one ring. Safe for use by several
// goroutines.
type Lease struct {
	arena *Arena
	place Place
	free  bool // released; guarded by arena.mu
}

// Counters says how far a ring has come since it was leased. The ends count
// records on their own: one may be done a moment before it is committed.
type Counters struct {
	Written, Read               uint64 // bytes, modulo 2^64
	RecordsWritten, RecordsRead uint64 // committed and done
}

// Lease takes the first free range that holds a ring of capacity bytes, rounded
// up to a power of two, and reserves its memory. Owner only. Faults:
// arena.place_invalid for a capacity below 1, arena.space_exhausted,
// arena.memory_closed.
func (a *Arena) Lease(capacity int) (*Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.memory == nil {
		return nil, a.closed()
	}
	place := Place{Ring: a.last + 1}
	if capacity < 1 || !a.owner {
		return nil, misplaced(place, "a capacity of %d was asked for (owner: %t)", capacity, a.owner)
	}
	if place.Capacity = 1 << bits.Len64(uint64(capacity)-1); place.Capacity > uint64(a.size) {
		return nil, a.short(capacity)
	}
	index, offset, found := a.firstFit(place.span())
	if !found {
		return nil, a.short(capacity)
	}
	place.Offset = offset
	if err := reserve(a.file, int64(offset), int64(place.span())); err != nil {
		return nil, err
	}
	a.last++
	a.install(place)
	l := &Lease{arena: a, place: place}
	a.leases = slices.Insert(a.leases, index, l)
	return l, nil
}

// span is what the ring takes of the file, in bytes.
func (p Place) span() uint64 { return grain + uint64(roundUp(int64(p.Capacity))) }

// firstFit finds the lowest free range of span bytes, and where its lease
// belongs in the list.
func (a *Arena) firstFit(span uint64) (index int, offset uint64, found bool) {
	offset = grain
	for i, l := range a.leases {
		if l.place.Offset-offset >= span {
			return i, offset, true
		}
		offset = l.place.Offset + l.place.span()
	}
	return len(a.leases), offset, uint64(a.size)-offset >= span
}

func (a *Arena) short(capacity int) error {
	return fault.New(fault.ArenaSpaceShort, component, "need", fmt.Sprintf("a ring of %d bytes", capacity))
}

// install writes the header of a ring whose range nobody else uses. The magic
// comes last and makes it attachable.
func (a *Arena) install(p Place) {
	h := overlay[ringHeader](a.memory, p.Offset)
	h.clear()
	h.ring.Store(p.Ring)
	h.offset.Store(p.Offset)
	h.capacity.Store(p.Capacity)
	for i := range h.ends {
		h.ends[i].state.Store(stateOf(p.Ring, 0))
	}
	h.magic.Store(ringMagic)
}

// clear zeroes the header, magic first. With a state of zero no end can attach.
func (h *ringHeader) clear() {
	h.magic.Store(0)
	h.ring.Store(0)
	h.offset.Store(0)
	h.capacity.Store(0)
	for i := range h.ends {
		e := &h.ends[i]
		e.state.Store(0)
		e.cursor.Store(0)
		e.records.Store(0)
		e.asleep.Store(0)
		e.wakeAt.Store(0)
	}
}

// Place is what the two ends of the ring need.
func (l *Lease) Place() Place { return l.place }

// Counters reads the figures of both ends from the map, without stopping them.
// After the release they are zero.
func (l *Lease) Counters() Counters {
	l.arena.mu.Lock()
	defer l.arena.mu.Unlock()
	if l.free || l.arena.memory == nil {
		return Counters{}
	}
	h := overlay[ringHeader](l.arena.memory, l.place.Offset)
	producer, consumer := &h.ends[ProducerEnd], &h.ends[ConsumerEnd]
	// The reader's side first: so it is never seen ahead of the writer's.
	c := Counters{Read: consumer.cursor.Load(), RecordsRead: consumer.records.Load()}
	c.Written, c.RecordsWritten = producer.cursor.Load(), producer.records.Load()
	return c
}

// Release gives the range back. Each end must have detached, never have been
// attached (it is barred then), or be named in dead: the caller's proof that
// its process has been reaped. Otherwise the fault is arena.lease_held, naming
// the holder, and nothing has changed. An end that this process itself holds
// cannot be dead. A second release is arena.lease_released.
func (l *Lease) Release(dead ...End) error {
	a := l.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.memory == nil:
		return a.closed()
	case l.free:
		return fault.New(fault.ArenaLeaseReleased, component, "lease", l.place.Ring)
	}
	h := overlay[ringHeader](a.memory, l.place.Offset)
	for _, which := range []End{ProducerEnd, ConsumerEnd} {
		if !l.letGo(h, which, slices.Contains(dead, which)) {
			l.unbar(h)
			return fault.New(fault.ArenaLeaseHeld, component, "lease", l.place.Ring, "holder", which)
		}
	}
	h.clear()
	l.free = true
	a.leases = slices.DeleteFunc(a.leases, func(other *Lease) bool { return other == l })
	giveBack(a.file, int64(l.place.Offset), int64(l.place.span()))
	return nil
}

// letGo reports whether nobody can use the end any more. An end that was never
// attached is barred, so that nobody who was told the place comes late.
func (l *Lease) letGo(h *ringHeader, which End, dead bool) bool {
	if l.arena.holds(l.place.Ring, which) { // whatever the file says
		return false
	}
	state := &h.ends[which].state
	if state.CompareAndSwap(stateOf(l.place.Ring, 0), stateOf(l.place.Ring, detached)) {
		return true
	}
	word := state.Load()
	return dead || (word>>stateBits == l.place.Ring && word&detached != 0)
}

// unbar opens the producer's end again where the consumer's is still held.
func (l *Lease) unbar(h *ringHeader) {
	for i := range h.ends {
		h.ends[i].state.CompareAndSwap(stateOf(l.place.Ring, detached), stateOf(l.place.Ring, 0))
	}
}

// holds reports whether this process has the end attached through a.
func (a *Arena) holds(ring uint64, which End) bool {
	for e := range a.ends {
		if e.ring == ring && e.which == which {
			return true
		}
	}
	return false
}

func misplaced(p Place, format string, args ...any) error {
	return fault.New(fault.ArenaPlaceInvalid, component, "ring", p.Ring, "what", fmt.Sprintf(format, args...))
}
