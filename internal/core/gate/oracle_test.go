package gate_test

import (
	"fmt"
	"slices"
	"time"

	"muster/internal/core/gate"
	"muster/internal/id"
)

// oracle judges as the contract reads, with no care for speed: it keeps every
// word ever said of a candidate's boot and scans all of them for each question.
// Only what has an order in time (boots, window, round, run) is state.
type oracle struct {
	c     gate.Config
	now   time.Duration
	epoch uint64
	pool  []id.NodeID
	of    map[id.NodeID]*life

	views     []time.Duration
	bad       bool
	lateUntil time.Duration
	wake      time.Duration

	since   time.Duration
	due     time.Duration
	asked   time.Duration // of the open round; -1: none open
	round   uint64
	by      map[id.NodeID]bool
	ready   bool
	aborted bool
	run     id.RunID
	needs   map[id.NodeID]bool
	lost    bool
	asks    uint64

	readies, losses, faults int // told so far
	blamed                  id.NodeID
}

// life is the boot of a candidate that counts, with all that was said of it.
type life struct {
	boot id.BootID
	said []said
	gone map[id.BootID]bool

	rival      id.BootID
	ask        uint64
	askDue     time.Duration
	refused    bool
	rivalHeard time.Duration
}

type said struct {
	e  gate.Event
	at time.Duration
}

func newOracle(c gate.Config) *oracle {
	return &oracle{c: c, of: map[id.NodeID]*life{}, asked: -1, by: map[id.NodeID]bool{}, needs: map[id.NodeID]bool{}}
}

// truth is all that readiness asks of a candidate. Equal truths mean that
// nothing changed.
type truth struct {
	boot                                          id.BootID
	endpoint                                      string
	incarnation, attempt                          uint32
	known, alive, available, dialled, fresh, sole bool
}

func (t truth) all() bool {
	return t.known && t.alive && t.available && t.dialled && t.fresh && t.sole
}

func (o *oracle) truth(n id.NodeID) truth {
	l := o.of[n]
	var t truth
	endpoint, dialled := "", false
	var inc uint32
	state := gate.SwimUnknown
	best, ok := uint32(0), false
	last := time.Duration(-1 << 60)
	for _, s := range l.said {
		switch e := s.e.(type) {
		case gate.NodeKnown:
			if endpoint != e.Endpoint {
				endpoint, dialled = e.Endpoint, false
			}
		case gate.EndpointDialled:
			if endpoint != "" && endpoint == e.Endpoint {
				dialled = e.Fault == nil
			}
		case gate.SwimSeen:
			if e.State == gate.SwimUnknown {
				inc, state = 0, e.State
			} else if e.Incarnation > inc || e.Incarnation == inc && e.State > state {
				inc, state = e.Incarnation, e.State
			}
		case gate.NodeAvailable:
			if e.Attempt > best {
				best, ok = e.Attempt, true
			}
		case gate.NodeFaulted:
			if e.Attempt >= best && e.Attempt > 0 {
				best, ok = e.Attempt, false
			}
		case gate.ContactMade:
			last = max(last, s.at-max(e.Age, 0))
		case gate.NonceAnswered:
			last = max(last, s.at)
		}
	}
	t.known, t.dialled, t.alive, t.available = endpoint != "", dialled, state == gate.SwimAlive, ok
	t.fresh, t.sole = o.now-last <= o.c.Contact, l.rival.IsZero()
	t.boot, t.endpoint, t.incarnation, t.attempt = l.boot, endpoint, inc, best
	return t
}

func (o *oracle) truths() map[id.NodeID]truth {
	m := map[id.NodeID]truth{}
	for _, n := range o.pool {
		m[n] = o.truth(n)
	}
	return m
}

func (o *oracle) starved() bool { return o.bad || o.now < o.lateUntil }

func (o *oracle) viewed() bool {
	return len(o.views) > 0 && o.now-o.views[len(o.views)-1] <= o.c.View
}

func (o *oracle) own() string { return fmt.Sprint(o.starved(), o.viewed()) }

func (o *oracle) holds() bool {
	for _, n := range o.pool {
		if !o.truth(n).all() {
			return false
		}
	}
	return len(o.pool) > 0 && o.viewed() && !o.starved()
}

func (o *oracle) forming() bool { return o.epoch > 0 && o.run.IsZero() && !o.aborted }

func (o *oracle) restart() {
	o.since, o.asked = o.now, -1
	if o.ready {
		o.ready = false
		o.losses++
		o.form()
		o.aborted = o.c.LossPolicy == gate.Abort
	}
}

func (o *oracle) form() {
	o.due = 0
	if o.c.Formation > 0 {
		o.due = o.now + o.c.Formation
	}
}

// compare sees what changed since before; as a candidate that is needed may
// have been lost by it.
func (o *oracle) compare(before map[id.NodeID]truth, own string) {
	if o.own() != own {
		o.restart()
	}
	for _, n := range o.pool {
		was, had := before[n]
		is := o.truth(n)
		if !had || was == is {
			continue
		}
		o.restart()
		if o.needs[n] && lossy(was, is) {
			o.lose(n)
		}
	}
}

// lossy: everything that ends a run, which a rival and a move to another
// address do not.
func lossy(was, is truth) bool {
	return was.boot != is.boot ||
		was.alive && !is.alive || was.incarnation != is.incarnation ||
		was.available && !is.available || was.attempt != is.attempt ||
		was.fresh && !is.fresh ||
		was.endpoint == is.endpoint && was.dialled && !is.dialled
}

func (o *oracle) lose(n id.NodeID) {
	if o.run.IsZero() || o.lost {
		return
	}
	o.lost = true
	o.faults++
	o.blamed = n
	if o.starved() {
		o.blamed = id.NodeID{}
	}
}

func (o *oracle) step(e gate.Event, now time.Duration) {
	before, own := o.truths(), o.own()
	o.now = max(o.now, now)
	if o.wake != 0 && o.now-o.wake > o.c.Late {
		o.lateUntil = o.now + o.c.Window
	}
	o.compare(before, own)
	for _, n := range slices.Clone(o.pool) {
		o.judgeRival(n)
	}
	if o.asked >= 0 && o.now >= o.asked+o.c.Nonce {
		o.asked, o.since = -1, o.now
	}
	if o.forming() && !o.ready && o.asked < 0 && o.holds() && o.now-o.since >= o.c.Window {
		o.asked, o.by = o.now, map[id.NodeID]bool{}
		o.round++
	}
	if o.forming() && !o.ready && o.due != 0 && o.now >= o.due {
		o.aborted, o.asked = true, -1
	}
	before, own = o.truths(), o.own()
	o.apply(e, before)
	o.compare(before, own)
	o.closeRound(e)
}

func (o *oracle) say(n id.NodeID, b id.BootID, e gate.Event, introduces bool) {
	if o.hears(n, b, introduces) {
		o.of[n].said = append(o.of[n].said, said{e, o.now})
	}
}

func (o *oracle) apply(e gate.Event, before map[id.NodeID]truth) {
	switch e := e.(type) {
	case gate.PoolDefined:
		o.define(e, before)
	case gate.NodeKnown:
		if e.Endpoint != "" {
			o.say(e.Node, e.Boot, e, true)
		}
	case gate.SwimSeen:
		o.swim(e)
	case gate.NodeAvailable:
		if e.Attempt > 0 {
			o.say(e.Node, e.Boot, e, true)
		}
	case gate.NodeFaulted:
		if e.Attempt > 0 {
			o.say(e.Node, e.Boot, e, true)
		}
	case gate.EndpointDialled:
		o.say(e.Node, e.Boot, e, false)
	case gate.ContactMade:
		o.say(e.Node, e.Boot, e, false)
	case gate.NonceAnswered:
		if o.asked >= 0 && e.Round == o.round && !o.by[e.Node] && o.hears(e.Node, e.Boot, false) {
			o.say(e.Node, e.Boot, e, false)
			o.by[e.Node] = true
		}
	case gate.HolderAnswered:
		for _, l := range o.of {
			if !l.rival.IsZero() && l.ask == e.Ask && l.boot == e.Boot && !l.refused {
				l.refused, l.askDue = true, o.now
			}
		}
	case gate.HolderGone:
		for n, l := range o.of {
			if !l.rival.IsZero() && l.ask == e.Ask && l.boot == e.Boot && !l.refused && !e.Boot.IsZero() {
				o.replace(n, l)
			}
		}
	case gate.ViewRead:
		o.views = append(o.views, o.now)
	case gate.HealthSeen:
		o.bad = e.Bad
	case gate.CommitAsked:
		o.commit(e)
	case gate.RunEnded:
		if !o.run.IsZero() && e.Run == o.run {
			o.run, o.needs, o.since = id.RunID{}, map[id.NodeID]bool{}, o.now
			o.form()
		}
	case gate.FormationAsked:
		if o.aborted && o.run.IsZero() {
			o.aborted, o.since = false, o.now
			o.form()
		}
	}
}

func (o *oracle) define(e gate.PoolDefined, before map[id.NodeID]truth) {
	seen := map[id.NodeID]bool{o.c.Self: true, {}: true}
	for _, m := range e.Members {
		if seen[m.ID] {
			return
		}
		seen[m.ID] = true
	}
	if e.Epoch <= o.epoch {
		return
	}
	of := map[id.NodeID]*life{}
	o.epoch, o.pool = e.Epoch, nil
	for _, m := range e.Members {
		o.pool = append(o.pool, m.ID)
		if of[m.ID] = o.of[m.ID]; of[m.ID] == nil {
			of[m.ID] = &life{gone: map[id.BootID]bool{}}
		}
	}
	o.of = of
	o.since, o.asked, o.aborted = o.now, -1, false
	if o.ready {
		o.ready = false
		o.losses++
	}
	o.form()
	for n := range before {
		if o.needs[n] && of[n] == nil {
			o.lose(n)
			delete(o.needs, n)
		}
	}
}

func (o *oracle) commit(e gate.CommitAsked) {
	ok := !e.Run.IsZero() && o.ready && e.Epoch == o.epoch && e.Round == o.round && len(e.Nodes) > 0
	for _, b := range e.Nodes {
		ok = ok && o.of[b.Node] != nil && o.of[b.Node].boot == b.Boot
	}
	if !ok {
		return
	}
	o.run, o.ready, o.lost = e.Run, false, false
	for _, b := range e.Nodes {
		o.needs[b.Node] = true
	}
}

func (o *oracle) closeRound(e gate.Event) {
	if _, answer := e.(gate.NonceAnswered); answer && o.asked >= 0 && len(o.by) == len(o.pool) {
		o.asked, o.ready, o.due = -1, true, 0
		o.readies++
	}
}

func (o *oracle) phase() gate.Phase {
	switch {
	case !o.run.IsZero() && o.lost:
		return gate.Faulted
	case !o.run.IsZero():
		return gate.Committed
	case o.epoch == 0:
		return gate.Unformed
	case o.aborted:
		return gate.Aborted
	case o.ready:
		return gate.Ready
	case o.asked >= 0:
		return gate.Asking
	case o.holds():
		return gate.Settling
	}
	return gate.Waiting
}
