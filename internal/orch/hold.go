package orch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/fault"
)

// Pauses before the next run where one did not come to serve: the first, and the
// longest. Each further one in a row is twice the one before.
const (
	leastHold = time.Second
	mostHold  = time.Minute
)

// ofGate are the families of what makes the gate wait: the pool's next readiness
// is the proof that it is over.
var ofGate = []string{"node.", "pool.", "orch.", "endpoint.", "edge.", "control."}

// hold keeps a pool from planning and loading again and again what fails each
// time: by its doctor, its weights, its plan.
type hold struct {
	failures int // runs in a row that did not come to serve
	until    time.Duration
	why      *fault.Fault
}

// formAgain: what had to wait may wait no longer.
type formAgain struct{}

// holdOff takes note of how a run ended. One that had served is no failure to
// begin, and what the gate sees of a node it sees again before the next.
func (m *mailbox) holdOff(why *fault.Fault) {
	if why == nil || m.lead.session != nil || slices.ContainsFunc(ofGate, func(family string) bool {
		return strings.HasPrefix(string(why.Code), family)
	}) {
		return
	}
	pause := min(leastHold<<min(m.hold.failures, 10), mostHold)
	m.hold.failures++
	m.hold.until, m.hold.why = m.o.now()+pause, m.named(why)
}

// held reports whether the next run has to wait, and has it formed then.
func (m *mailbox) held() bool {
	left := m.hold.until - m.o.now()
	if left <= 0 {
		return false
	}
	m.again(left)
	return true
}

// again has a run formed after a while, if one is wanted then. Of several calls
// the earliest instant stands; what still has to wait then asks again.
func (m *mailbox) again(left time.Duration) {
	if at := m.o.now() + left; m.formAt == 0 || at < m.formAt {
		m.formAt = at
		m.after(left, formAgain{})
	}
}

// holdBlocker is what a pause is to people; false where there is none.
func (m *mailbox) holdBlocker(now time.Duration) (Blocker, bool) {
	left := m.hold.until - now
	if left <= 0 {
		return Blocker{}, false
	}
	return Blocker{
		What: fmt.Sprintf("the last run did not come to serve, the next is formed in %.1f s: %s", left.Seconds(), m.hold.why.Error()),
		Do:   m.hold.why.Hint(),
	}, true
}
