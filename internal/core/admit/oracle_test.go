package admit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/fault"
	"muster/internal/id"
)

// entryOfLog is one thing that was done, with what came of it.
type entryOfLog struct {
	at        time.Duration
	what      string // issue, accept, refuse, renew, lose, boot, endrun
	node      byte
	boot      byte
	run       byte
	challenge Challenge // given, answered, or of the lease
}

// oracle answers every question by reading the whole log anew. It keeps no
// state, so it forgets nothing and mixes nothing up.
type oracle struct {
	log []entryOfLog
	now time.Duration
}

func (o *oracle) note(e entryOfLog) {
	e.at = o.now
	o.log = append(o.log, e)
}

// endOf returns the first entry that comes after the end of the lease that
// began at entry i, or is its end; over says whether it has ended by now.
func (o *oracle) endOf(i int) (end int, over bool) {
	l := o.log[i]
	expires := l.at + 10*time.Second
	for j, e := range o.log[i+1:] {
		switch {
		case e.at >= expires, e.what == "endrun" && e.run == l.run:
			return i + 1 + j, true
		case e.node != l.node:
		case e.what == "renew":
			expires = e.at + 10*time.Second
		case e.what == "accept", e.what == "lose", e.what == "boot" && e.boot != l.boot:
			return i + 1 + j, true
		}
	}
	return len(o.log), o.now >= expires
}

// lease is the live lease of a node; nil where it has none.
func (o *oracle) lease(node byte) *entryOfLog {
	for i := len(o.log) - 1; i >= 0; i-- {
		if o.log[i].what == "accept" && o.log[i].node == node {
			if _, over := o.endOf(i); over {
				return nil
			}
			return &o.log[i]
		}
	}
	return nil
}

// void reports whether the challenge given at entry i died by something that
// happened to its node since.
func (o *oracle) void(i int) bool {
	c := o.log[i]
	for j, e := range o.log {
		switch {
		case e.node == c.node && j > i && (e.what == "accept" || e.what == "lose" || e.what == "boot" && e.boot != c.boot):
			return true
		case e.what == "accept" && e.node == c.node: // of an earlier lease that ended since
			if end, over := o.endOf(j); over && end > i {
				return true
			}
		}
	}
	return false
}

func (o *oracle) failures(node byte) (count int, until time.Duration) {
	for _, e := range o.log {
		if e.node != node {
			continue
		}
		switch e.what {
		case "accept":
			count, until = 0, 0
		case "refuse":
			count++
			until = e.at + time.Second<<(count-1)
		}
	}
	return count, until
}

// issues returns the codes that asking for a challenge may end by; "" for one.
func (o *oracle) issues(node byte) fault.Code {
	if _, until := o.failures(node); o.now < until {
		return fault.AdmitNodeHeld
	}
	open := 0
	for i, e := range o.log {
		if e.what == "issue" && e.node == node && o.now-e.at <= 60*time.Second && !o.void(i) {
			open++
		}
	}
	if open >= 4 {
		return fault.AdmitChallengesExhausted
	}
	return ""
}

// registers returns the codes that a report may be refused by; "" accepts.
func (o *oracle) registers(node byte, a attempt) []fault.Code {
	if _, until := o.failures(node); o.now < until {
		return []fault.Code{fault.AdmitNodeHeld}
	}
	if a.flaw == "tampered" {
		return []fault.Code{fault.AdmitSignatureBroken}
	}
	given := slices.IndexFunc(o.log, func(e entryOfLog) bool { return e.what == "issue" && e.node == node && e.challenge == a.challenge })
	used := slices.ContainsFunc(o.log, func(e entryOfLog) bool { return e.what == "accept" && e.challenge == a.challenge })
	switch {
	case given >= 0 && used:
		return []fault.Code{fault.AdmitChallengeUsed, fault.AdmitChallengeUnknown} // forgotten after a while
	case given < 0 || o.void(given):
		return []fault.Code{fault.AdmitChallengeUnknown}
	}
	c := o.log[given]
	late := o.now - c.at
	switch {
	case late > 120*time.Second:
		return []fault.Code{fault.AdmitChallengeUnknown, fault.AdmitBootMismatched, fault.AdmitRecipeMismatched, fault.AdmitCheckFailed, fault.AdmitChallengeExpired}
	case c.boot != a.boot:
		return []fault.Code{fault.AdmitBootMismatched}
	case a.flaw == "recipe":
		return []fault.Code{fault.AdmitRecipeMismatched}
	case a.flaw == "failed":
		return []fault.Code{fault.AdmitCheckFailed}
	case late > 60*time.Second:
		return []fault.Code{fault.AdmitChallengeExpired}
	case a.flaw == "early":
		return []fault.Code{fault.AdmitForwardPredated, fault.AdmitReportExpired}
	case slices.ContainsFunc(o.log, func(e entryOfLog) bool { return e.what == "endrun" && e.run == a.run }):
		return []fault.Code{fault.AdmitRunEnded}
	}
	return []fault.Code{""}
}

// attempt is a registration as it is tried.
type attempt struct {
	challenge Challenge
	boot, run byte
	flaw      string // "", tampered, recipe, failed, early
}

// pair is a book beside its oracle.
type pair struct {
	book     *Book
	oracle   oracle
	live     map[byte]Challenge // by what the book told
	given    []Challenge
	sequence uint64
}

func (p *pair) hear(t *rapid.T, effects []Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case LeaseGranted:
			if _, twice := p.live[e.Lease.Pool[1]]; twice {
				t.Fatal("a lease was granted beside another")
			}
			p.live[e.Lease.Pool[1]] = e.Lease.ID
		case LeaseEnded:
			if p.live[e.Lease.Pool[1]] != e.Lease.ID {
				t.Fatal("a lease ended that was not told of")
			}
			delete(p.live, e.Lease.Pool[1])
		}
	}
}

// poolOf names the node in a lease, for hear.
func poolOf(node byte) string { return string([]byte{'p', node}) }

func code(f *fault.Fault) fault.Code {
	if f == nil {
		return ""
	}
	return f.Code
}

func (p *pair) issue(t *rapid.T, node, boot byte) {
	c := challengeOf(byte(len(p.given) + 1))
	want := p.oracle.issues(node)
	effects, f := p.book.Issue(nodeOf(node), id.BootID{boot}, c, p.oracle.now)
	p.hear(t, effects)
	if code(f) != want {
		t.Fatalf("asked for a challenge: %v, want %q", f, want)
	}
	if f == nil {
		p.given = append(p.given, c)
		p.oracle.note(entryOfLog{what: "issue", node: node, boot: boot, challenge: c})
	}
}

func (p *pair) register(t *rapid.T, node byte, a attempt) {
	p.sequence++
	r := report(node, middle)
	r.Challenge, r.Boot, r.Run, r.Age, r.Sequence, r.Pool = a.challenge, id.BootID{a.boot}, runOf(a.run), 0, p.sequence, poolOf(node)
	w := wantOf(r)
	switch a.flaw {
	case "recipe":
		r.Recipe[0]++
	case "failed":
		r.Checks[0].Passed = false
	case "early":
		r.Age = 1000 * time.Hour
	}
	s, f := Sign(keyOf(node), r)
	if f != nil {
		t.Fatal(f)
	}
	if a.flaw == "tampered" {
		s.Report.Capacity.Slots++
	}
	want := p.oracle.registers(node, a)
	_, effects, f := p.book.Register(nodeOf(node), s, w, p.oracle.now)
	p.hear(t, effects)
	if !slices.Contains(want, code(f)) {
		t.Fatalf("registered %+v: %v, want %q", a, f, want)
	}
	switch {
	case f == nil:
		p.oracle.note(entryOfLog{what: "accept", node: node, boot: a.boot, run: a.run, challenge: a.challenge})
	case f.Code == fault.AdmitCheckFailed:
		p.oracle.note(entryOfLog{what: "lose", node: node})
		p.oracle.note(entryOfLog{what: "refuse", node: node})
	case f.Code != fault.AdmitNodeHeld && f.Code != fault.AdmitChallengeUnknown && f.Code != fault.AdmitRunEnded:
		p.oracle.note(entryOfLog{what: "refuse", node: node})
	}
}

func (p *pair) renew(t *rapid.T, node byte, lease Challenge, boot byte, changed bool) {
	l := p.oracle.lease(node)
	d := report(node, middle).Digests
	if changed {
		d.Backend[0]++
	}
	want := fault.Code("")
	switch {
	case l == nil || l.challenge != lease:
		want = fault.AdmitLeaseUnknown
	case l.boot != boot:
		want = fault.AdmitBootMismatched
	case changed:
		want = fault.AdmitLeaseChanged
	}
	_, effects, f := p.book.Renew(nodeOf(node), id.BootID{boot}, lease, d, p.oracle.now)
	p.hear(t, effects)
	if code(f) != want {
		t.Fatalf("renewed: %v, want %q", f, want)
	}
	switch want {
	case "":
		p.oracle.note(entryOfLog{what: "renew", node: node})
	case fault.AdmitBootMismatched, fault.AdmitLeaseChanged:
		p.oracle.note(entryOfLog{what: "lose", node: node})
	default:
	}
}

// The book agrees with an oracle that reads the whole log anew, after every
// step of any sequence.
func TestTheBookAgreesWithItsWholeLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{book: NewBook(Config{PauseMost: 10_000 * time.Hour}), live: map[byte]Challenge{}}
		node := rapid.ByteRange(1, 2)
		boot := rapid.SampledFrom([]byte{1, 1, 1, 2})
		run := rapid.SampledFrom([]byte{1, 1, 1, 2})
		anyChallenge := func(t *rapid.T) Challenge {
			if len(p.given) == 0 || rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
				return challengeOf(255)
			}
			return p.given[len(p.given)-1-rapid.IntRange(0, min(3, len(p.given)-1)).Draw(t, "challenge")]
		}
		ended := fault.New(fault.RunStopped, "test")
		t.Repeat(map[string]func(*rapid.T){
			"issue": func(t *rapid.T) {
				if len(p.given) < 250 {
					p.issue(t, node.Draw(t, "node"), boot.Draw(t, "boot"))
				}
			},
			"register": func(t *rapid.T) {
				flaw := rapid.SampledFrom([]string{"", "", "", "", "tampered", "recipe", "failed", "early"}).Draw(t, "flaw")
				p.register(t, node.Draw(t, "node"), attempt{anyChallenge(t), boot.Draw(t, "boot"), run.Draw(t, "run"), flaw})
			},
			"admit": func(t *rapid.T) { // the way that a sound node goes
				n, b := node.Draw(t, "node"), boot.Draw(t, "boot")
				if len(p.given) < 250 {
					p.issue(t, n, b)
				}
				if len(p.given) > 0 {
					p.register(t, n, attempt{p.given[len(p.given)-1], b, run.Draw(t, "run"), ""})
				}
			},
			"renew": func(t *rapid.T) {
				n := node.Draw(t, "node")
				lease := anyChallenge(t)
				if l := p.oracle.lease(n); l != nil && rapid.Bool().Draw(t, "its own") {
					lease = l.challenge
				}
				p.renew(t, n, lease, boot.Draw(t, "boot"), rapid.IntRange(0, 5).Draw(t, "changed") == 0)
			},
			"lose": func(t *rapid.T) {
				n := node.Draw(t, "node")
				p.hear(t, p.book.NodeLost(nodeOf(n), ended, p.oracle.now))
				p.oracle.note(entryOfLog{what: "lose", node: n})
			},
			"reboot": func(t *rapid.T) {
				n, b := node.Draw(t, "node"), boot.Draw(t, "boot")
				lost := p.oracle.lease(n)
				p.hear(t, p.book.BootChanged(nodeOf(n), id.BootID{b}, p.oracle.now))
				p.oracle.note(entryOfLog{what: "boot", node: n, boot: b})
				if lost != nil && lost.boot != b {
					p.oracle.note(entryOfLog{what: "lose", node: n})
				}
			},
			"end a run": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "often") == 0 {
					r := run.Draw(t, "run")
					p.hear(t, p.book.RunEnded(runOf(r), ended, p.oracle.now))
					p.oracle.note(entryOfLog{what: "endrun", run: r})
				}
			},
			"wait": func(t *rapid.T) {
				p.oracle.now += rapid.SampledFrom([]time.Duration{
					0, 1, time.Second, 3 * time.Second, 10*time.Second - 1, 10 * time.Second, 30 * time.Second, 60 * time.Second,
				}).Draw(t, "time")
			},
			"": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "ticks") {
					p.hear(t, p.book.Tick(p.oracle.now))
					p.compareTold(t)
				}
				p.compareRoutes(t)
			},
		})
	})
}

// compareTold holds what the book told against the oracle, just after a tick.
func (p *pair) compareTold(t *rapid.T) {
	for n := byte(1); n <= 2; n++ {
		l, told := p.oracle.lease(n), p.live[n]
		if l == nil && !told.IsZero() || l != nil && told != l.challenge {
			t.Fatalf("node %d: told is the lease %s, want %+v", n, told, l)
		}
	}
}

// compareRoutes holds the answer of Admitted, for each node and run, against
// the oracle.
func (p *pair) compareRoutes(t *rapid.T) {
	for n := byte(1); n <= 2; n++ {
		l := p.oracle.lease(n)
		for r := byte(1); r <= 2; r++ {
			for b := byte(1); b <= 2; b++ {
				whole := Run{ID: runOf(r), Revision: digestOf(10), Depth: 8, Stages: []Stage{{Node: nodeOf(n), Boot: id.BootID{b}, Attempt: 2, Layers: middle}}}
				blocked := slices.ContainsFunc(p.book.Admitted(whole, p.oracle.now), func(b Blocker) bool { return b.Fault.Code == fault.AdmitRouteMissing })
				if want := l == nil || l.run != r || l.boot != b; blocked != want {
					t.Fatalf("node %d, run %d, boot %d: blocked is %t, the lease is %+v", n, r, b, blocked, l)
				}
			}
		}
	}
}
