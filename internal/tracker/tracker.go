package tracker

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
)

const component = "tracker"

// Owner says what the tracker cannot know.
type Owner interface {
	// Wanted is what a report must bind to be accepted: r says which shard its
	// node speaks of, and is known to be signed by that node, no more. The zero
	// Want wants nothing of it: so it is for a node that is suspected, gone or
	// faulted, as long as it is. An error is answered as it is.
	Wanted(ctx context.Context, r admit.Report) (admit.Want, error)
	// Tell hears what has happened, in order. It must neither block nor call
	// the tracker.
	Tell(e admit.Effect)
}

// Config says what a tracker is.
type Config struct {
	Rules  admit.Config
	Owner  Owner
	Now    func() time.Duration // a monotonic clock that counts suspend
	Random io.Reader            // for challenges; nil takes crypto/rand
}

// Tracker answers nodes. Its methods may be called at once from many
// goroutines.
type Tracker struct {
	cfg    Config
	rules  admit.Config
	server *http.Server
	moved  chan struct{} // holds one token where the book may be due sooner

	mu   sync.Mutex
	book *admit.Book
}

// New makes a tracker that knows no node.
func New(c Config) *Tracker {
	if c.Random == nil {
		c.Random = rand.Reader
	}
	t := &Tracker{cfg: c, book: admit.NewBook(c.Rules), moved: make(chan struct{}, 1)}
	t.rules = t.book.Config()
	t.server = &http.Server{
		Handler:           t.handler(),
		ReadHeaderTimeout: requestWithin,
		ReadTimeout:       requestWithin,
		WriteTimeout:      2 * requestWithin, // from the end of the head
		MaxHeaderBytes:    mostHead,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		BaseContext:       baseContext,
		ConnContext:       connContext,
	}
	t.server.SetKeepAlivesEnabled(false) // a stream carries one request
	return t
}

// with calls f with the book and the present instant, and tells what came of
// it.
func (t *Tracker) with(f func(b *admit.Book, now time.Duration) []admit.Effect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range f(t.book, t.cfg.Now()) {
		t.cfg.Owner.Tell(e)
	}
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// Run ends leases whose time is over, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.moved:
		case <-timer.C:
			t.mu.Lock()
			for _, e := range t.book.Tick(t.cfg.Now()) {
				t.cfg.Owner.Tell(e)
			}
			t.mu.Unlock()
		}
		timer.Reset(t.untilDue())
	}
}

// untilDue is at least a moment, so that a clock that stands still is not asked
// without end.
func (t *Tracker) untilDue() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.book.Due()-t.cfg.Now(), time.Millisecond)
}

// NodeLost ends what a node has: it is suspected, dead, gone or faulted, or
// something else is wanted of it. why must not be nil.
func (t *Tracker) NodeLost(node id.NodeID, why *fault.Fault) {
	t.with(func(b *admit.Book, now time.Duration) []admit.Effect { return b.NodeLost(node, why, now) })
}

// BootChanged ends what a node has under another boot than this one.
func (t *Tracker) BootChanged(node id.NodeID, boot id.BootID) {
	t.with(func(b *admit.Book, now time.Duration) []admit.Effect { return b.BootChanged(node, boot, now) })
}

// RunEnded ends the leases of a run, and lets no later report into it. why must
// not be nil.
func (t *Tracker) RunEnded(run id.RunID, why *fault.Fault) {
	t.with(func(b *admit.Book, now time.Duration) []admit.Effect { return b.RunEnded(run, why, now) })
}

// Excuse voids a node's open challenges: what it asked them for is over.
func (t *Tracker) Excuse(node id.NodeID) {
	t.with(func(b *admit.Book, now time.Duration) []admit.Effect { return b.Excuse(node, now) })
}

// Admitted lists what keeps a run from taking requests; nothing lets it.
func (t *Tracker) Admitted(r admit.Run) []admit.Blocker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Admitted(r, t.cfg.Now())
}

// Standings lists how the nodes stand that the tracker knows, by id.
func (t *Tracker) Standings() []admit.Standing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Standings(t.cfg.Now())
}
