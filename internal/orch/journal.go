package orch

import (
	"context"
	"sync"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/store"
)

// Bounds of the journal's queue, and of one write.
const (
	mostQueued  = 4096
	mostWritten = 256
	writeWithin = 10 * time.Second
)

// journal writes every event to the store, in order, from one goroutine, and
// wakes whoever follows. Telling never blocks: what comes faster than the disk
// takes it is counted and said once there is room.
type journal struct {
	store store.Journal
	tell  func(event.Event)

	mu      sync.Mutex
	queue   []event.Stamped
	dropped int
	grown   chan struct{} // closed and renewed when the store has more
	kick    chan struct{} // one token: the queue has something
}

func newJournal(s store.Journal, tell func(event.Event)) *journal {
	return &journal{store: s, tell: tell, grown: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// Tell passes an event on and queues it.
func (j *journal) Tell(e event.Event) {
	j.tell(e)
	j.mu.Lock()
	if len(j.queue) < mostQueued {
		j.queue = append(j.queue, event.Stamped{Time: time.Now(), Event: e})
	} else {
		j.dropped++
	}
	j.mu.Unlock()
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// write writes until ctx ends, and then what is queued.
func (j *journal) write(ctx context.Context) {
	for {
		select {
		case <-j.kick:
			j.flush()
		case <-ctx.Done():
			j.flush()
			return
		}
	}
}

func (j *journal) flush() {
	for {
		j.mu.Lock()
		n := min(len(j.queue), mostWritten)
		batch := j.queue[:n:n]
		j.queue = j.queue[n:]
		if n < mostWritten && j.dropped > 0 {
			lost := fault.New(fault.OrchJournalLost, component, "events", j.dropped)
			batch = append(batch, event.Stamped{Time: time.Now(), Event: event.EventsDropped{Fault: lost}})
			j.dropped = 0
		}
		j.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		_, err := j.store.Append(ctx, batch...)
		cancel()
		j.mu.Lock()
		if err != nil {
			j.dropped += len(batch)
		} else {
			close(j.grown)
			j.grown = make(chan struct{})
		}
		j.mu.Unlock()
		if err != nil {
			return // until the next event, since a full disk stays full for a while
		}
	}
}

// Events follows the journal from a sequence on. The journal is the queue of
// whoever follows: one who is too slow finds that entries are gone, and how
// many.
type Events struct {
	journal *journal
	ended   <-chan struct{}
	next    uint64 // sequence of the latest entry given
	page    []store.Entry
	dropped uint64
}

// Next waits for the next event. It ends with ctx, and with run.interrupted
// when the orchestrator does. One goroutine calls it.
func (e *Events) Next(ctx context.Context) (store.Entry, error) {
	for len(e.page) == 0 {
		e.journal.mu.Lock()
		grown := e.journal.grown
		e.journal.mu.Unlock()
		page, err := e.journal.store.Since(ctx, e.next, mostWritten)
		if err != nil {
			return store.Entry{}, err
		}
		if e.page = page; len(page) > 0 {
			break
		}
		select {
		case <-grown:
		case <-e.ended:
			return store.Entry{}, fault.New(fault.RunInterrupted, component)
		case <-ctx.Done():
			return store.Entry{}, context.Cause(ctx)
		}
	}
	entry := e.page[0]
	e.page = e.page[1:]
	if e.next > 0 {
		e.dropped += entry.Sequence - e.next - 1
	}
	e.next = entry.Sequence
	return entry, nil
}

// Dropped is how many entries were gone before they were read.
func (e *Events) Dropped() uint64 { return e.dropped }
