package arena

import (
	"errors"
	"os"
)

// Ring is a leased ring with its two doorbells, for an owner who gives one end
// of it to a child, or both to two. Its owner calls it from one goroutine.
type Ring struct {
	arena      *Arena
	lease      *Lease
	toConsumer doorbell
	toProducer doorbell
}

// doorbell is a pipe: who waits reads, who rings writes.
type doorbell struct{ wait, ring *os.File }

// NewRing leases a ring of capacity bytes and makes its doorbells. Owner only.
// Faults as of Lease and Doorbell.
func (a *Arena) NewRing(capacity int) (*Ring, error) {
	l, err := a.Lease(capacity)
	if err != nil {
		return nil, err
	}
	r := &Ring{arena: a, lease: l}
	for _, b := range []*doorbell{&r.toConsumer, &r.toProducer} {
		if b.wait, b.ring, err = Doorbell(); err != nil {
			r.CloseBells()
			return nil, errors.Join(err, l.Release())
		}
	}
	return r, nil
}

// Lease is the hold on the ring's memory; it is the caller's to release.
func (r *Ring) Lease() *Lease { return r.lease }

// Producer attaches this process to the writing end. Faults as of
// Arena.Producer.
func (r *Ring) Producer() (*Producer, error) {
	return r.arena.Producer(r.lease.Place(), r.toProducer.wait, r.toConsumer.ring)
}

// Consumer attaches this process to the reading end. Faults as of
// Arena.Consumer.
func (r *Ring) Consumer() (*Consumer, error) {
	return r.arena.Consumer(r.lease.Place(), r.toConsumer.wait, r.toProducer.ring)
}

// ReaderFiles are the descriptors of a child that reads: what it waits at, then
// what it rings. This process closes them once the child is born.
func (r *Ring) ReaderFiles() []*os.File {
	return []*os.File{r.toConsumer.wait, r.toProducer.ring}
}

// WriterFiles are the descriptors of a child that writes, in the same order.
func (r *Ring) WriterFiles() []*os.File {
	return []*os.File{r.toProducer.wait, r.toConsumer.ring}
}

// CloseBells closes what no end has taken over; closing again does nothing.
func (r *Ring) CloseBells() {
	for _, b := range []doorbell{r.toConsumer, r.toProducer} {
		for _, f := range []*os.File{b.wait, b.ring} {
			if f != nil {
				_ = f.Close() // a pipe end that was never written, or closed before
			}
		}
	}
}
