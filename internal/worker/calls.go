package worker

import (
	"fmt"
	"sync"

	"muster/internal/fault"
	"muster/internal/wire"
)

// call is one request that is owed an answer.
type call struct {
	id       uint64
	req      wire.Request
	progress chan wire.Progress // holds the latest
	answer   chan wire.Reply    // holds the one
	over     chan struct{}      // closed when no answer can come any more
}

// calls is the table of requests sent and not answered.
type calls struct {
	mu    sync.Mutex
	last  uint64
	open  map[uint64]*call
	left  map[uint64]*call // given up by their callers; their answers are still owed
	fault *fault.Fault     // set when the process has ended
}

// begin gives req the next id. It fails with the process' fault once that has
// ended.
func (c *calls) begin(req wire.Request) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != nil {
		return nil, c.fault
	}
	if c.open == nil {
		c.open, c.left = map[uint64]*call{}, map[uint64]*call{}
	}
	c.last++
	req.ID = c.last
	k := &call{
		id:       req.ID,
		req:      req,
		progress: make(chan wire.Progress, 1),
		answer:   make(chan wire.Reply, 1),
		over:     make(chan struct{}),
	}
	c.open[k.id] = k
	return k, nil
}

// forget takes back a call that was never sent.
func (c *calls) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, k.id)
}

// leave gives a call up; what still comes for it is dropped.
func (c *calls) leave(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[k.id] == k {
		delete(c.open, k.id)
		c.left[k.id] = k
	}
}

// take hands a reply to its call. It says what is wrong with a reply that is
// none, "" where nothing is.
func (c *calls) take(r wire.Reply) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, waiting := c.open[r.ID]
	if !waiting {
		k = c.left[r.ID]
	}
	if k == nil {
		return fmt.Sprintf("a reply to request %d, which awaits none", r.ID)
	}
	if wrong := mismatch(k.req, r); wrong != "" {
		return wrong
	}
	if r.Progress != nil {
		if waiting {
			k.report(*r.Progress)
		}
		return ""
	}
	delete(c.open, r.ID)
	delete(c.left, r.ID)
	if waiting {
		k.answer <- r
	}
	return ""
}

// report replaces what the caller has not looked at yet. Only the reader of
// stdout reports.
func (k *call) report(p wire.Progress) {
	select {
	case <-k.progress:
	default:
	}
	k.progress <- p
}

// end answers every waiter with the fault of the process.
func (c *calls) end(f *fault.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
	for _, k := range c.open {
		close(k.over)
	}
	c.open, c.left = nil, nil
}

// mismatch says why r is no reply to req, "" where it is one.
func mismatch(req wire.Request, r wire.Reply) string {
	bearing := map[wire.Op]bool{
		wire.OpOpen:     r.Opened != nil,
		wire.OpLoad:     r.Loaded != nil,
		wire.OpTokenize: r.Tokens != nil,
		wire.OpVocab:    r.Vocab != nil,
		wire.OpStats:    r.Stats != nil,
	}
	own := bearing[req.Op]
	delete(bearing, req.Op)
	for op, foreign := range bearing {
		if foreign {
			return fmt.Sprintf("the answer of %s to a request of %s", op, req.Op)
		}
	}
	if r.Fault != nil || r.Progress != nil {
		if own || r.Fault != nil && r.Progress != nil {
			return fmt.Sprintf("a reply to %s that is two things at once", req.Op)
		}
		return ""
	}
	if !own && needsBody(req) {
		return fmt.Sprintf("an empty answer to %s", req.Op)
	}
	return ""
}

// needsBody reports whether an answer to req without a field of its own means
// nothing. A text without tokens is answered by none.
func needsBody(req wire.Request) bool {
	switch req.Op {
	case wire.OpOpen, wire.OpVocab, wire.OpStats:
		return true
	case wire.OpLoad:
		return req.Load == nil || req.Load.Kind != wire.LoadVocabulary
	case wire.OpAttach, wire.OpTokenize, wire.OpPing, wire.OpStop:
		return false
	default:
		return false
	}
}
