package edge

import (
	"context"
	"sync"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Expected names a stream that is to arrive.
type Expected struct {
	Edge    id.EdgeID
	Peer    id.NodeID // who opens it
	Run     id.RunID
	Attempt uint32
}

func (e Expected) config() Config {
	return Config{Run: e.Run, Edge: e.Edge, Attempt: e.Attempt, Peer: e.Peer}
}

// TableConfig bounds a Table. Zero fields take the default.
type TableConfig struct {
	Most     int           // edges expected at once; default 256
	Preamble time.Duration // for the first bytes of a stream; default 5 s
	Early    time.Duration // for which a stream may come before it is expected; default 5 s
	PerPeer  int           // early streams of one peer; default 16

	// Tell is told of each stream that was refused, in the goroutine that
	// serves it; nil where nobody listens.
	Tell func(refused *fault.Fault)
}

// Table holds the edges that a process expects and routes streams to them.
type Table struct {
	cfg TableConfig

	mu       sync.Mutex
	expected map[id.EdgeID]*Arrival
	early    map[id.NodeID]int // streams that wait to be expected
	changed  chan struct{}     // closed and made anew when an edge is expected
}

// NewTable makes an empty table.
func NewTable(cfg TableConfig) *Table {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&cfg.Preamble, 5*time.Second)
	set(&cfg.Early, 5*time.Second)
	if cfg.Most <= 0 {
		cfg.Most = 256
	}
	if cfg.PerPeer <= 0 {
		cfg.PerPeer = 16
	}
	if cfg.Tell == nil {
		cfg.Tell = func(*fault.Fault) {}
	}
	return &Table{cfg: cfg, expected: map[id.EdgeID]*Arrival{}, early: map[id.NodeID]int{}, changed: make(chan struct{})}
}

// Expect lets one stream in, until ctx ends or the arrival is closed; either
// ends the stream too. Faults: edge.table_filled, edge.arrival_doubled.
func (t *Table) Expect(ctx context.Context, e Expected) (*Arrival, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.expected[e.Edge] != nil:
		return nil, e.config().fault(from, fault.EdgeArrivalDoubled)
	case len(t.expected) >= t.cfg.Most:
		return nil, e.config().fault(from, fault.EdgeTableFilled, "count", len(t.expected))
	}
	a := &Arrival{table: t, want: e, stream: make(chan Receiver, 1), ended: make(chan struct{})}
	t.expected[e.Edge] = a
	a.disarm = context.AfterFunc(ctx, a.end)
	close(t.changed)
	t.changed = make(chan struct{})
	return a, nil
}

// Len is how many edges are expected or taken.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.expected)
}

// Serve takes a stream that peer has opened: it reads the preamble, hands the
// stream to whoever expects it and returns when that arrival or ctx, the life
// of the connection, has ended. A stream that is refused is cancelled with
// CodeRefused and told.
func (t *Table) Serve(ctx context.Context, peer id.NodeID, r Receiver) {
	a, err := t.admit(ctx, peer, r)
	if err != nil {
		r.Cancel(CodeRefused)
		f := fault.From(err)
		f.Node = peer.Short()
		t.cfg.Tell(f)
		return
	}
	a.stream <- r
	select {
	case <-a.ended:
	case <-ctx.Done():
	}
}

func (t *Table) admit(ctx context.Context, peer id.NodeID, r Receiver) (*Arrival, error) {
	p, err := ReadPreamble(r, t.cfg.Preamble)
	if err != nil {
		return nil, err
	}
	got := Expected{Edge: p.Edge, Peer: peer, Run: p.Run, Attempt: p.Attempt}
	a, changed, err := t.claim(got)
	if changed == nil {
		return a, err
	}
	if !t.wait(peer, 1) {
		return nil, unexpected(got, "too many of its streams are not expected")
	}
	defer t.wait(peer, -1)
	timer := time.NewTimer(t.cfg.Early)
	defer timer.Stop()
	for changed != nil {
		select {
		case <-changed:
			a, changed, err = t.claim(got)
		case <-timer.C:
			return nil, unexpected(got, "nobody expects it here")
		case <-ctx.Done():
			return nil, unexpected(got, "its connection ended before it was expected")
		}
	}
	return a, err
}

// claim takes the place of an expected stream. Where the edge is not known, it
// returns the channel that is closed at the next change.
func (t *Table) claim(got Expected) (a *Arrival, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a = t.expected[got.Edge]
	switch {
	case a == nil:
		return nil, t.changed, nil
	case a.want.Peer != got.Peer:
		return nil, nil, unexpected(got, "it is another node's")
	case a.want.Run != got.Run || a.want.Attempt != got.Attempt:
		return nil, nil, unexpected(got, "it is of another run or attempt")
	case a.taken:
		return nil, nil, unexpected(got, "there is one already")
	}
	a.taken = true
	return a, nil, nil
}

// wait counts early streams of a peer; it is false where there are too many.
func (t *Table) wait(peer id.NodeID, by int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if by > 0 && t.early[peer] >= t.cfg.PerPeer {
		return false
	}
	if t.early[peer] += by; t.early[peer] == 0 {
		delete(t.early, peer)
	}
	return true
}

func unexpected(e Expected, what string) error {
	return e.config().fault(from, fault.EdgeStreamUnexpected, "run", e.Run.Short(), "attempt", e.Attempt, "what", what)
}
