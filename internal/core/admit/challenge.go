package admit

import (
	"slices"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// challenge is one that was given to a node. Used and expired ones are kept for
// a while, so that a report that comes with one is told so.
type challenge struct {
	value  Challenge
	boot   id.BootID // of which it was asked
	issued time.Duration
	used   bool
}

// Issue gives a node the challenge c, which must be of fresh random bytes, for
// a report of this boot. Faults: admit.node_held, admit.challenges_exhausted,
// admit.book_full.
func (b *Book) Issue(node id.NodeID, boot id.BootID, c Challenge, now time.Duration) ([]Effect, *fault.Fault) {
	b.pass(now)
	e, f := b.entry(node)
	if f == nil {
		f = b.held(e)
	}
	if f == nil {
		f = b.room(e)
	}
	if f != nil {
		return b.take(), f
	}
	e.challenges = append(e.challenges, challenge{value: c, boot: boot, issued: b.now})
	b.kept++
	return b.take(), nil
}

// room refuses where a node, or all together, have too many challenges.
func (b *Book) room(e *entry) *fault.Fault {
	b.forget(e)
	open := slices.DeleteFunc(slices.Clone(e.challenges), func(c challenge) bool { return c.used || b.over(c) })
	if len(open) >= b.cfg.Challenges {
		return exhausted(len(open), open[0].issued+b.cfg.ChallengeFor-b.now)
	}
	if b.kept >= b.cfg.ChallengesInAll {
		b.sweep()
	}
	if b.kept >= b.cfg.ChallengesInAll {
		return exhausted(b.kept, b.cfg.ChallengeFor)
	}
	return nil
}

func exhausted(count int, wait time.Duration) *fault.Fault {
	return fault.New(fault.AdmitChallengesExhausted, component, "count", count, "wait", upToMillis(wait))
}

// answered is the challenge that a report answers, if it still can be.
func (e *entry) answered(r *Report) (*challenge, *fault.Fault) {
	i := slices.IndexFunc(e.challenges, func(c challenge) bool { return c.value == r.Challenge })
	if i < 0 {
		return nil, fault.New(fault.AdmitChallengeUnknown, component, "field", "challenge")
	}
	c := &e.challenges[i]
	if c.used {
		return nil, fault.New(fault.AdmitChallengeUsed, component, "field", "challenge")
	}
	if c.boot != r.Boot {
		return nil, mismatch(fault.AdmitBootMismatched, "boot", c.boot, r.Boot)
	}
	return c, nil
}

// over reports whether no report can answer a challenge any more.
func (b *Book) over(c challenge) bool { return b.now-c.issued > b.cfg.ChallengeFor }

// forget drops challenges that have been over for long.
func (b *Book) forget(e *entry) {
	b.drop(e, func(c challenge) bool { return b.now-c.issued > 2*b.cfg.ChallengeFor })
}

// void drops the open challenges of a node, and used ones beyond as many as it
// may have open.
func (b *Book) void(e *entry) {
	b.drop(e, func(c challenge) bool { return !c.used })
	surplus := len(e.challenges) - b.cfg.Challenges
	b.drop(e, func(challenge) bool { surplus--; return surplus >= 0 })
}

func (b *Book) drop(e *entry, which func(challenge) bool) {
	before := len(e.challenges)
	e.challenges = slices.DeleteFunc(e.challenges, which)
	b.kept -= before - len(e.challenges)
}

// upToMillis rounds up, so that who waits so long has waited long enough.
func upToMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
