package admit

import (
	"fmt"
	"testing"
	"time"

	"muster/internal/fault"
)

func TestChallengesAreBounded(t *testing.T) {
	d := newDesk(t, Config{ChallengesInAll: 6})
	for range 4 {
		_, f := d.issue(1)
		wantCode(t, f, "")
		d.now += time.Second
	}
	_, f := d.issue(1)
	wantCode(t, f, fault.AdmitChallengesExhausted)
	if f != nil && (f.Attr("count") != "4" || f.Attr("wait") != "56s") {
		t.Errorf("%+v", f.Attrs)
	}
	for range 2 {
		_, f := d.issue(2)
		wantCode(t, f, "")
	}
	_, f = d.issue(2)
	wantCode(t, f, fault.AdmitChallengesExhausted)
	d.now += 56*time.Second + 1
	_, f = d.issue(1) // its first has expired, but is remembered
	wantCode(t, f, fault.AdmitChallengesExhausted)
	d.now += 60 * time.Second
	_, f = d.issue(1)
	wantCode(t, f, "")
}

// Forwards that were broken off do not use a node's room up: its challenges are
// void, its lease stands.
func TestAnExcusedNodeHasItsRoomAgain(t *testing.T) {
	d := newDesk(t, Config{})
	d.admit(1)
	var given Challenge
	for range 12 {
		c, f := d.issue(1)
		wantCode(t, f, "")
		given = c
		d.hear(d.book.Excuse(nodeOf(1), d.now))
	}
	if d.book.nodes[nodeOf(1)].lease == nil {
		t.Error("the lease has gone")
	}
	_, f := d.send(1, d.report(1, given))
	wantCode(t, f, fault.AdmitChallengeUnknown)
	d.hear(d.book.Excuse(nodeOf(9), d.now)) // unknown
}

func TestTheBookIsBoundedHoweverOftenItIsUsed(t *testing.T) {
	d := newDesk(t, Config{Nodes: 2})
	for range 200 {
		d.admit(1)
		d.now += 100 * time.Millisecond
	}
	if d.book.kept > 8 || d.book.kept != len(d.book.nodes[nodeOf(1)].challenges) {
		t.Errorf("%d challenges are kept, %d are counted", len(d.book.nodes[nodeOf(1)].challenges), d.book.kept)
	}
	d.admit(2)
	_, f := d.issue(3)
	wantCode(t, f, fault.AdmitBookFull)
	wantCode(t, d.book.Allow(nodeOf(3), d.now), fault.AdmitBookFull)
	d.now += 5 * time.Minute
	_, f = d.issue(3) // the others are gone for long
	wantCode(t, f, "")
}

func TestANodeThatFailsAgainAndAgainIsHeldOff(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		if f := d.book.over(d.book.nodes[nodeOf(2)].challenges[0]); f {
			c, _ = d.issue(2)
		}
		bad := d.report(2, c)
		bad.Recipe = digestOf(77)
		w := wantOf(d.report(2, c))
		_, f := d.sendFor(2, bad, w)
		if f == nil || f.Code == fault.AdmitNodeHeld {
			t.Fatalf("attempt %d: %v", i, f)
		}
		pause := time.Duration(seconds) * time.Second
		d.now += pause - 1
		_, f = d.issue(2)
		wantCode(t, f, fault.AdmitNodeHeld)
		if f != nil && (f.Attr("wait") != "1ms" || f.Attr("count") != fmt.Sprint(i+1) || f.Attr("what") == "") {
			t.Errorf("after %d refusals: %+v", i+1, f.Attrs)
		}
		_, f = d.sendFor(2, bad, w)
		wantCode(t, f, fault.AdmitNodeHeld)
		d.now++
	}
	d.admit(2)
	if s := d.book.Standings(d.now)[0]; s.Failures != 0 || s.HeldFor != 0 || s.Why != nil || s.Lease == nil {
		t.Errorf("after an acceptance it stands as %+v", s)
	}
}

// What was refused since something ended meanwhile costs no pause.
func TestANodeThatCouldNotKnowIsNotHeldOff(t *testing.T) {
	d := newDesk(t, Config{})
	_, f := d.send(2, d.report(2, challengeOf(99)))
	wantCode(t, f, fault.AdmitChallengeUnknown)
	c, _ := d.issue(2)
	_, f = d.sendFor(2, d.report(2, c), Want{})
	wantCode(t, f, fault.AdmitShardUnwanted)
	_, f = d.send(2, d.report(2, c))
	wantCode(t, f, "")
}

func TestWhatIsNoReportIsCountedToo(t *testing.T) {
	d := newDesk(t, Config{})
	d.hear(d.book.Refuse(nodeOf(2), fault.New(fault.AdmitReportUnreadable, component, "what", "it is empty"), d.now))
	_, f := d.issue(2)
	wantCode(t, f, fault.AdmitNodeHeld)
	d.wantTold("refused admit.report_unreadable")
}

func TestRequestsOfANodeAreBounded(t *testing.T) {
	d := newDesk(t, Config{})
	for i := range 20 {
		if f := d.book.Allow(nodeOf(1), d.now); f != nil {
			t.Fatalf("request %d: %v", i, f)
		}
	}
	f := d.book.Allow(nodeOf(1), d.now)
	wantCode(t, f, fault.AdmitRateExceeded)
	if f != nil && f.Attr("wait") != "200ms" {
		t.Errorf("%+v", f.Attrs)
	}
	wantCode(t, d.book.Allow(nodeOf(2), d.now), "") // another pays for itself
	d.now += 200*time.Millisecond - 1
	wantCode(t, d.book.Allow(nodeOf(1), d.now), fault.AdmitRateExceeded)
	d.now++
	wantCode(t, d.book.Allow(nodeOf(1), d.now), "")
	wantCode(t, d.book.Allow(nodeOf(1), d.now), fault.AdmitRateExceeded)
	d.now += time.Hour
	for range 20 {
		wantCode(t, d.book.Allow(nodeOf(1), d.now), "")
	}
	wantCode(t, d.book.Allow(nodeOf(1), d.now), fault.AdmitRateExceeded)
}
