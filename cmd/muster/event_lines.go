package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"muster/internal/event"
)

// eventLines writes events an object a line. A reader that does not keep up
// loses events, and never holds up what tells them.
type eventLines struct {
	wait sync.WaitGroup

	mu     sync.Mutex
	closed bool
	queue  chan event.Stamped
}

// queuedEvents is how far a reader may fall behind.
const queuedEvents = 4096

func newEventLines(to io.Writer) *eventLines {
	l := &eventLines{queue: make(chan event.Stamped, queuedEvents)}
	l.wait.Go(func() {
		enc := json.NewEncoder(to)
		enc.SetEscapeHTML(false)
		for e := range l.queue {
			_ = enc.Encode(e) // nobody reads: the node lives for its pool
		}
	})
	return l
}

func (l *eventLines) tell(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- event.Stamped{Time: time.Now(), Event: e}:
	default:
	}
}

// close returns when everything told has been written.
func (l *eventLines) close() {
	l.mu.Lock()
	l.closed = true
	close(l.queue)
	l.mu.Unlock()
	l.wait.Wait()
}
