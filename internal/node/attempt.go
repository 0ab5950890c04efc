package node

import (
	"context"
	"sync"

	"muster/internal/arena"
)

// attempt is what one boot attempt holds. Each field is written by the proof
// that makes it and read by what starts after that fact is proven; crew and
// making are the mailbox's.
type attempt struct {
	number uint32
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup // proofs, and the making of crews

	arena  *arena.Arena
	proven *crew // until the mailbox takes it

	crew   *crew // proven and free, or the stage's
	making bool  // one is being made
}

func newAttempt(life context.Context, number uint32) *attempt {
	a := &attempt{number: number}
	a.ctx, a.cancel = context.WithCancel(life)
	return a
}

// end calls off what is under way.
func (a *attempt) end() { a.cancel() }

// free ends the worker and frees the memory. Nothing of the attempt is under
// way any more.
func (a *attempt) free() {
	for _, c := range []*crew{a.crew, a.proven} {
		if c != nil {
			c.end()
		}
	}
	if a.arena != nil {
		_ = a.arena.Close() // only the file's own bookkeeping can fail
	}
}
