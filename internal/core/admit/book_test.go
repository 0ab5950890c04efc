package admit

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// desk is a book with a clock. Node n has boot n and holds the layers of its
// number: 1 the first, 2 the middle, 3 the last stage.
type desk struct {
	t    testing.TB
	book *Book
	now  time.Duration
	next byte // challenges are told apart by it
	told []Effect
}

func newDesk(t testing.TB, c Config) *desk {
	return &desk{t: t, book: NewBook(c), now: 1000 * time.Second}
}

func (d *desk) hear(effects []Effect) { d.told = append(d.told, effects...) }

// issue asks for a challenge of node n under its boot.
func (d *desk) issue(n byte) (Challenge, *fault.Fault) {
	d.next++
	c := challengeOf(d.next)
	effects, f := d.book.Issue(nodeOf(n), id.BootID{n}, c, d.now)
	d.hear(effects)
	return c, f
}

// report is a sound report of node n for a challenge, with a forward that took
// no time.
func (d *desk) report(n byte, c Challenge) Report {
	r := report(n, [][2]int{{}, first, middle, last}[n])
	r.Challenge, r.Age, r.Sequence = c, 0, uint64(d.next)+1
	return r
}

func (d *desk) send(n byte, r Report) (Lease, *fault.Fault) {
	d.t.Helper()
	w := wantOf(r)
	w.Challenge, w.After = Challenge{}, 0
	return d.sendFor(n, r, w)
}

// sendFor has peer n register r where w is wanted.
func (d *desk) sendFor(n byte, r Report, w Want) (Lease, *fault.Fault) {
	d.t.Helper()
	signer := n
	for _, k := range []byte{1, 2, 3} {
		if r.Node == nodeOf(k) {
			signer = k
		}
	}
	l, effects, f := d.book.Register(nodeOf(n), sign(d.t, signer, r), w, d.now)
	d.hear(effects)
	return l, f
}

// admit takes node n through a challenge and a sound report to a lease.
func (d *desk) admit(n byte) Lease {
	d.t.Helper()
	c, f := d.issue(n)
	if f != nil {
		d.t.Fatal(f)
	}
	l, f := d.send(n, d.report(n, c))
	if f != nil {
		d.t.Fatal(f)
	}
	return l
}

func (d *desk) renew(l Lease) *fault.Fault {
	_, effects, f := d.book.Renew(l.Node, l.Boot, l.ID, l.Digests, d.now)
	d.hear(effects)
	return f
}

// run is the one that report speaks of, on the nodes 1 to 3.
func run() Run {
	return Run{ID: runOf(1), Revision: digestOf(10), Depth: 8, Stages: []Stage{
		{Name: "n1", Node: nodeOf(1), Boot: id.BootID{1}, Attempt: 2, Layers: first},
		{Name: "n2", Node: nodeOf(2), Boot: id.BootID{2}, Attempt: 2, Layers: middle},
		{Name: "n3", Node: nodeOf(3), Boot: id.BootID{3}, Attempt: 2, Layers: last},
	}}
}

// wantBlocked fails where other nodes than these keep the run from requests.
func (d *desk) wantBlocked(names ...string) {
	d.t.Helper()
	var got []string
	for _, b := range d.book.Admitted(run(), d.now) {
		got = append(got, b.Name)
	}
	if !reflect.DeepEqual(got, names) {
		d.t.Errorf("blocked by %q, want %q", got, names)
	}
}

// wantTold fails where the effects since the last call are others.
func (d *desk) wantTold(want ...string) {
	d.t.Helper()
	var got []string
	for _, e := range d.told {
		switch e := e.(type) {
		case LeaseGranted:
			got = append(got, fmt.Sprintf("granted %d", e.Lease.Boot[0]))
		case LeaseEnded:
			got = append(got, fmt.Sprintf("ended %d %s", e.Lease.Boot[0], e.Why.Code))
		case NodeRefused:
			got = append(got, "refused "+string(e.Why.Code))
		}
	}
	d.told = nil
	if !reflect.DeepEqual(got, want) {
		d.t.Errorf("told %q, want %q", got, want)
	}
}

func TestARunIsAdmittedWhileEveryStageHoldsALease(t *testing.T) {
	d := newDesk(t, Config{})
	d.wantBlocked("n1", "n2", "n3")
	d.admit(2)
	d.wantBlocked("n1", "n3")
	d.admit(1)
	l := d.admit(3)
	d.wantBlocked()
	d.wantTold("granted 2", "granted 1", "granted 3")

	// Renewals carry it on, and their end ends it, to the nanosecond.
	for range 10 {
		d.now += 3 * time.Second
		for _, s := range d.book.Standings(d.now) {
			if f := d.renew(*s.Lease); f != nil {
				t.Fatal(f)
			}
		}
		d.wantBlocked()
	}
	d.now += 10*time.Second - 1
	d.wantBlocked()
	if d.book.Due() > d.now+1 {
		t.Errorf("the next tick is due at %s, the leases end at %s", d.book.Due(), d.now+1)
	}
	d.now++
	d.wantBlocked("n1", "n2", "n3")
	d.hear(d.book.Tick(d.now))
	want := []string{"ended 1 admit.lease_expired", "ended 2 admit.lease_expired", "ended 3 admit.lease_expired"}
	if nodeOf(1).Compare(nodeOf(2)) < 0 && nodeOf(2).Compare(nodeOf(3)) < 0 {
		d.wantTold(want...)
	} else if len(d.told) != len(want) {
		t.Errorf("told %v", d.told)
	}
	d.told = nil
	wantCode(t, d.renew(l), fault.AdmitLeaseUnknown)
	d.wantBlocked("n1", "n2", "n3")
	d.admit(3) // by a new challenge and a new forward
	d.wantBlocked("n1", "n2")
}

func TestWhatEndsALease(t *testing.T) {
	lost := fault.New(fault.NodeSuspected, "swim", "name", "n2")
	cases := map[string]struct {
		end func(d *desk, l Lease)
		why fault.Code
	}{
		"a suspicion":               {func(d *desk, l Lease) { d.hear(d.book.NodeLost(l.Node, lost, d.now)) }, fault.NodeSuspected},
		"a leave":                   {func(d *desk, l Lease) { d.hear(d.book.NodeLost(l.Node, fault.New(fault.NodeDeparted, ""), d.now)) }, fault.NodeDeparted},
		"a fault of the node":       {func(d *desk, l Lease) { d.hear(d.book.NodeLost(l.Node, fault.New(fault.NodeBootFaulted, ""), d.now)) }, fault.NodeBootFaulted},
		"a new boot":                {func(d *desk, l Lease) { d.hear(d.book.BootChanged(l.Node, id.BootID{9}, d.now)) }, fault.NodeRestarted},
		"the end of its run":        {func(d *desk, l Lease) { d.hear(d.book.RunEnded(l.Run, fault.New(fault.RunStopped, ""), d.now)) }, fault.RunStopped},
		"its node's wish":           {func(d *desk, l Lease) { e, _ := d.book.Return(l.Node, l.ID, d.now); d.hear(e) }, fault.AdmitLeaseReturned},
		"another slice":             {func(d *desk, l Lease) { l.Slice[0]++; wantCode(d.t, d.renew(l), fault.AdmitLeaseChanged) }, fault.AdmitLeaseChanged},
		"another embedding":         {func(d *desk, l Lease) { l.Embedding[0]++; wantCode(d.t, d.renew(l), fault.AdmitLeaseChanged) }, fault.AdmitLeaseChanged},
		"another recipe":            {func(d *desk, l Lease) { l.Recipe[0]++; wantCode(d.t, d.renew(l), fault.AdmitLeaseChanged) }, fault.AdmitLeaseChanged},
		"another backend":           {func(d *desk, l Lease) { l.Backend[0]++; wantCode(d.t, d.renew(l), fault.AdmitLeaseChanged) }, fault.AdmitLeaseChanged},
		"a renewal of another boot": {func(d *desk, l Lease) { l.Boot[0]++; wantCode(d.t, d.renew(l), fault.AdmitBootMismatched) }, fault.AdmitBootMismatched},
		"its time":                  {func(d *desk, _ Lease) { d.now += 10 * time.Second; d.hear(d.book.Tick(d.now)) }, fault.AdmitLeaseExpired},
		"a report of a failed check": {func(d *desk, _ Lease) {
			c, _ := d.issue(2)
			r := d.report(2, c)
			r.Checks[0].Got = 1
			_, f := d.send(2, r)
			wantCode(d.t, f, fault.AdmitCheckFailed)
		}, fault.AdmitCheckFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, Config{})
			l := d.admit(2)
			open, f := d.issue(2) // before the end
			if f != nil {
				t.Fatal(f)
			}
			d.told = nil
			c.end(d, l)
			if len(d.told) == 0 {
				t.Fatal("nothing was told")
			}
			ended, ok := d.told[0].(LeaseEnded)
			if !ok || ended.Lease.ID != l.ID || ended.Why.Code != c.why {
				t.Fatalf("told %+v", d.told[0])
			}
			d.wantBlocked("n1", "n2", "n3")
			b := d.book.Admitted(run(), d.now)[1]
			if b.Node != nodeOf(2) || b.Layers != middle || b.Fault.Code != fault.AdmitRouteMissing || fault.From(b.Fault.Cause).Code != c.why {
				t.Errorf("the blocker says %v", b)
			}
			wantCode(t, d.renew(l), fault.AdmitLeaseUnknown)
			// What was measured before the end restores nothing.
			d.now += 2 * time.Second
			_, f = d.send(2, d.report(2, open))
			wantCode(t, f, fault.AdmitChallengeUnknown)
			d.wantBlocked("n1", "n2", "n3")
		})
	}
}

func TestWhatEndsNoLease(t *testing.T) {
	d := newDesk(t, Config{})
	l := d.admit(2)
	d.told = nil
	d.hear(d.book.NodeLost(nodeOf(1), fault.New(fault.NodeDied, ""), d.now))
	d.hear(d.book.BootChanged(nodeOf(2), l.Boot, d.now))
	d.hear(d.book.RunEnded(runOf(8), fault.New(fault.RunStopped, ""), d.now))
	d.hear(d.book.RunEnded(id.RunID{}, fault.New(fault.RunStopped, ""), d.now))
	other := l
	other.ID[0]++
	wantCode(t, d.renew(other), fault.AdmitLeaseUnknown) // a late renewal of an earlier lease
	_, f := d.book.Return(l.Node, other.ID, d.now)
	wantCode(t, f, fault.AdmitLeaseUnknown)
	_, effects, f := d.book.Renew(nodeOf(3), l.Boot, l.ID, l.Digests, d.now) // of another node
	wantCode(t, f, fault.AdmitLeaseUnknown)
	d.hear(effects)
	d.wantTold()
	d.wantBlocked("n1", "n3")
}

func TestALaterRegistrationTakesThePlaceOfTheFormer(t *testing.T) {
	d := newDesk(t, Config{})
	former := d.admit(2)
	later := d.admit(2)
	d.wantTold("granted 2", "ended 2 admit.lease_replaced", "granted 2")
	wantCode(t, d.renew(former), fault.AdmitLeaseUnknown)
	wantCode(t, d.renew(later), "")
}

// The report was on its way while its run ended.
func TestNoLeaseForARunThatHasEnded(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	d.hear(d.book.RunEnded(runOf(1), fault.New(fault.RunStopped, ""), d.now))
	_, f := d.send(2, d.report(2, c))
	wantCode(t, f, fault.AdmitRunEnded)
	d.wantTold("refused admit.run_ended")
}

func TestAChallengeOfAFormerBootIsVoid(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	d.hear(d.book.BootChanged(nodeOf(2), id.BootID{9}, d.now))
	_, f := d.send(2, d.report(2, c))
	wantCode(t, f, fault.AdmitChallengeUnknown)

	c, _ = d.issue(2)
	r := d.report(2, c)
	r.Boot = id.BootID{9} // given to another boot than it comes from
	_, f = d.send(2, r)
	wantCode(t, f, fault.AdmitBootMismatched)
}

func TestAnEarlierInstantIsTakenForTheLatest(t *testing.T) {
	d := newDesk(t, Config{})
	l := d.admit(2)
	d.now += 10 * time.Second
	d.hear(d.book.Tick(d.now))
	d.now -= 9 * time.Second
	wantCode(t, d.renew(l), fault.AdmitLeaseUnknown)
	d.wantBlocked("n1", "n2", "n3")
}
