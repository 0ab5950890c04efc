package admit

import (
	"fmt"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Run is what has to be routed to, as its plan says.
type Run struct {
	ID       id.RunID
	Revision Digest
	Depth    int // layers of the whole model
	Stages   []Stage
}

// Stage is one place of a run.
type Stage struct {
	Name    string // the node for people
	Node    id.NodeID
	Boot    id.BootID
	Attempt uint32
	Layers  [2]int // [start,end)
}

// Blocker is one thing that stands between a run and its first request.
type Blocker struct {
	Node   id.NodeID    `json:"node"` // none where it is no node's
	Name   string       `json:"name"` // the node for people
	Layers [2]int       `json:"layers"`
	Fault  *fault.Fault `json:"fault"` // what is so
}

// String is what is so and what a person can do.
func (b Blocker) String() string { return b.Fault.Error() + "; " + b.Fault.Hint() }

// Admitted lists what keeps a run from taking requests at now: nothing means
// that its stages cover the model and each holds a live route. It is the one
// question that a request is let in by.
func (b *Book) Admitted(r Run, now time.Duration) []Blocker {
	now = max(now, b.now)
	var all []Blocker
	if what := r.uncovered(); what != "" {
		all = append(all, Blocker{Fault: fault.New(fault.AdmitRunUncovered, component, "what", what)})
	}
	for _, s := range r.Stages {
		if why, ok := b.routed(r, s, now); !ok {
			f := fault.New(fault.AdmitRouteMissing, component, "name", s.Name, "layers", layersText(s.Layers))
			if why != nil {
				f.Cause = why
			}
			all = append(all, Blocker{Node: s.Node, Name: s.Name, Layers: s.Layers, Fault: f})
		}
	}
	return all
}

// uncovered says which layers no stage holds, or two; "" where all is well.
func (r *Run) uncovered() string {
	if r.ID.IsZero() || r.Depth <= 0 {
		return "there is none"
	}
	next := 0
	for _, s := range r.Stages {
		if s.Layers[0] != next || s.Layers[1] <= next {
			return fmt.Sprintf("layers %s follow layer %d", layersText(s.Layers), next)
		}
		next = s.Layers[1]
	}
	if next != r.Depth {
		return fmt.Sprintf("they end at layer %d of %d", next, r.Depth)
	}
	return ""
}

// routed reports whether a stage holds a live route of this run; why not, where
// that is known.
func (b *Book) routed(r Run, s Stage, now time.Duration) (why *fault.Fault, ok bool) {
	e := b.nodes[s.Node]
	if e == nil {
		return nil, false
	}
	l := e.lease
	switch {
	case l == nil:
		return e.why, false
	case now >= l.Expires:
		return b.expired(), false
	}
	want := l.Binding
	want.Purpose, want.Run, want.Attempt, want.Boot = ForStage, r.ID, s.Attempt, s.Boot
	want.Revision, want.Depth, want.Layers = r.Revision, r.Depth, s.Layers
	why = match(&l.Binding, &want)
	return why, why == nil
}

// Standing is how a node stands with the tracker.
type Standing struct {
	Node     id.NodeID
	Lease    *Lease        // nil: no live route
	Why      *fault.Fault  // the latest refusal, or why its lease ended; nil while it has one
	Failures int           // refusals in a row
	HeldFor  time.Duration // until it may try again
}

// Standings lists the nodes that the book knows, by id.
func (b *Book) Standings(now time.Duration) []Standing {
	now = max(now, b.now)
	all := make([]Standing, 0, len(b.nodes))
	for _, e := range b.inOrder() {
		s := Standing{Node: e.node, Why: e.why, Failures: e.failures, HeldFor: max(0, e.heldUntil-now)}
		if e.lease != nil && now < e.lease.Expires {
			l := *e.lease
			s.Lease = &l
		} else if e.lease != nil {
			s.Why = b.expired()
		}
		all = append(all, s)
	}
	return all
}
