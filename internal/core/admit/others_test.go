package admit

import (
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// How others got reports wrong, each as a test of its own.

func TestTheChallengeInTheReportIsComparedWithTheOneGiven(t *testing.T) {
	d := newDesk(t, Config{})
	given, _ := d.issue(2)
	other, _ := d.issue(3)
	_, f := d.send(2, d.report(2, other)) // given to another node
	wantCode(t, f, fault.AdmitChallengeUnknown)
	_, f = d.send(2, d.report(2, challengeOf(99))) // given to nobody
	wantCode(t, f, fault.AdmitChallengeUnknown)
	_, f = d.send(2, d.report(2, given))
	wantCode(t, f, "")
}

func TestAnAcceptanceUsesTheChallengeUp(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	r := d.report(2, c)
	_, f := d.send(2, r)
	wantCode(t, f, "")
	_, f = d.send(2, r)
	wantCode(t, f, fault.AdmitChallengeUsed)
	d.now += 2 * time.Second
	r.Sequence++ // another report for the same challenge
	_, f = d.send(2, r)
	wantCode(t, f, fault.AdmitChallengeUsed)
}

func TestARefusedReportDoesNotUseTheChallengeUp(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	good := d.report(2, c)
	forged := sign(t, 2, good)
	forged.Report.Speed.TokenMicros++
	_, effects, f := d.book.Register(nodeOf(2), forged, wantOf(good), d.now)
	wantCode(t, f, fault.AdmitSignatureBroken)
	d.hear(effects)
	d.now += time.Second
	bad := d.report(2, c)
	bad.Checks[3].Passed = false
	_, f = d.send(2, bad)
	wantCode(t, f, fault.AdmitCheckFailed)
}

func TestAfterARefusalTheSameChallengeMayStillBeAnswered(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	bad := d.report(2, c)
	bad.Recipe = digestOf(77)
	_, f := d.sendFor(2, bad, wantOf(d.report(2, c)))
	wantCode(t, f, fault.AdmitRecipeMismatched)
	d.now += time.Second
	_, f = d.send(2, d.report(2, c))
	wantCode(t, f, "")
}

func TestAnEmptyListOfChecksIsRefused(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	r := d.report(2, c)
	r.Checks = nil
	_, f := d.send(2, r)
	wantCode(t, f, fault.AdmitChecksEmpty)
}

func TestAReportIsBoundToTheKeyOfTheConnection(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	_, f := d.send(3, d.report(2, c)) // node 3 sends what node 2 signed
	wantCode(t, f, fault.AdmitNodeMismatched)
	_, f = d.send(2, d.report(2, c))
	wantCode(t, f, "")
}

func TestAnOlderSuccessIsWorthNothingAfterARestart(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	success := d.report(2, c)
	l, f := d.send(2, success)
	wantCode(t, f, "")

	// The tracker is started anew: its book is empty.
	d.book = NewBook(Config{})
	_, f = d.send(2, success)
	wantCode(t, f, fault.AdmitChallengeUnknown)
	wantCode(t, d.renew(l), fault.AdmitLeaseUnknown)
	d.wantBlocked("n1", "n2", "n3")

	// The node is started anew, and has a new challenge; the old report names
	// its old boot, and a changed one is not signed.
	d.hear(d.book.BootChanged(nodeOf(2), id.BootID{9}, d.now))
	_, f = d.book.Issue(nodeOf(2), id.BootID{9}, challengeOf(50), d.now)
	wantCode(t, f, "")
	success.Challenge = challengeOf(50)
	now := wantOf(success)
	now.Boot = id.BootID{9}
	_, f = d.sendFor(2, success, now)
	wantCode(t, f, fault.AdmitBootMismatched)
	d.wantBlocked("n1", "n2", "n3")
}

func TestACheckerThatIsDownIsNoPass(t *testing.T) {
	d := newDesk(t, Config{})
	d.wantBlocked("n1", "n2", "n3") // nobody ever asked
	c, _ := d.issue(2)
	d.wantBlocked("n1", "n2", "n3") // asked, and no report came
	_, f := d.sendFor(2, d.report(2, c), Want{})
	wantCode(t, f, fault.AdmitShardUnwanted) // nobody knows what is wanted
	d.wantBlocked("n1", "n2", "n3")
}

func TestToBeKnownIsNotToBeAdmitted(t *testing.T) {
	d := newDesk(t, Config{})
	for n := byte(1); n <= 3; n++ {
		if _, f := d.issue(n); f != nil {
			t.Fatal(f)
		}
	}
	if all := d.book.Standings(d.now); len(all) != 3 || all[0].Lease != nil {
		t.Errorf("%+v", all)
	}
	d.wantBlocked("n1", "n2", "n3")
}

// A probe that can be switched off will be: no figure of the configuration lets
// a report in that is not sound.
func TestNoConfigurationSwitchesTheRuleOff(t *testing.T) {
	for _, c := range []Config{
		{},
		{ChallengeFor: 1 << 62, ReportFor: 1 << 62, LeaseFor: 1 << 61, PauseLeast: -1, PauseMost: -1, Challenges: 1 << 30, Burst: 1 << 30},
		{ChallengeFor: -1, ReportFor: -1, LeaseFor: -1},
	} {
		for path, m := range moves {
			if path == "Age" || path == "Challenge" || path == "Sequence" {
				continue // the first two stand below, a sequence alone is no claim
			}
			d := newDesk(t, c)
			given, _ := d.issue(1)
			good := d.report(1, given)
			bad := d.report(1, given)
			m.change(&bad)
			s := Signed{Report: bad}
			if signed, f := Sign(keyOf(1), bad); f == nil {
				s = signed
			}
			if _, _, f := d.book.Register(nodeOf(1), s, wantOf(good), d.now); f == nil {
				t.Errorf("%+v: another %s was accepted", c, path)
			}
			d.wantBlocked("n1", "n2", "n3")
		}
		d := newDesk(t, c)
		given, _ := d.issue(2)
		early := d.report(2, given)
		early.Age = time.Nanosecond // before the challenge
		if _, f := d.send(2, early); f == nil {
			t.Errorf("%+v: a forward from before the challenge was accepted", c)
		}
	}
}

func TestTheClockHasNoLeeway(t *testing.T) {
	for _, c := range []struct {
		wait, age time.Duration
		code      fault.Code
	}{
		{60 * time.Second, 60 * time.Second, ""},
		{60 * time.Second, 60*time.Second + 1, fault.AdmitReportExpired},
		{60*time.Second + 1, 0, fault.AdmitChallengeExpired},
		{time.Second, time.Second, ""},
		{time.Second, time.Second + 1, fault.AdmitForwardPredated},
		{time.Second, -1, fault.AdmitReportPostdated},
	} {
		d := newDesk(t, Config{})
		given, _ := d.issue(2)
		d.now += c.wait
		r := d.report(2, given)
		r.Age = c.age
		_, f := d.send(2, r)
		wantCode(t, f, c.code)
	}
}

func TestQuantisationIsPartOfTheIdentity(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	w := wantOf(d.report(2, c))
	r := d.report(2, c)
	r.Revision = digestOf(70) // the same model, quantised otherwise
	_, f := d.sendFor(2, r, w)
	wantCode(t, f, fault.AdmitRevisionMismatched)

	d.now += 10 * time.Second
	kv := recipe()
	w.Recipe = RecipeDigest(kv)
	kv.KVType = "q8_0"
	r = d.report(2, c)
	r.Recipe = RecipeDigest(kv)
	_, f = d.sendFor(2, r, w)
	wantCode(t, f, fault.AdmitRecipeMismatched)
}

func TestTheEnginesBuildIsPartOfTheIdentity(t *testing.T) {
	d := newDesk(t, Config{})
	c, _ := d.issue(2)
	w := wantOf(d.report(2, c))
	w.Backend = backend().Digest()
	other := backend()
	other.Libraries[1].Digest[0]++ // the same version, another build
	r := d.report(2, c)
	r.Backend = other.Digest()
	_, f := d.sendFor(2, r, w)
	wantCode(t, f, fault.AdmitBackendMismatched)
}

func TestAGroupIsJudgedByAllOfIt(t *testing.T) {
	admitted := func() *desk {
		d := newDesk(t, Config{})
		d.admit(1)
		d.admit(2)
		d.admit(3)
		d.wantBlocked()
		return d
	}
	for name, change := range map[string]func(*Run){
		"no run":                  func(r *Run) { *r = Run{} },
		"no stages":               func(r *Run) { r.Stages = nil },
		"the first stage missing": func(r *Run) { r.Stages = r.Stages[1:] },
		"the last stage missing":  func(r *Run) { r.Stages = r.Stages[:2] },
		"a stage twice":           func(r *Run) { r.Stages = append(r.Stages[:2:2], r.Stages[1:]...) },
		"another order":           func(r *Run) { r.Stages[0], r.Stages[1] = r.Stages[1], r.Stages[0] },
		"another run":             func(r *Run) { r.ID = runOf(5) },
		"another attempt":         func(r *Run) { r.Stages[1].Attempt++ },
		"another revision":        func(r *Run) { r.Revision = digestOf(99) },
		"another depth":           func(r *Run) { r.Depth++ },
		"another boot":            func(r *Run) { r.Stages[2].Boot[0]++ },
		"another node":            func(r *Run) { r.Stages[2].Node = nodeOf(1) },
		"other cuts":              func(r *Run) { r.Stages[0].Layers[1], r.Stages[1].Layers[0] = 4, 4 },
	} {
		d, r := admitted(), run()
		change(&r)
		all := d.book.Admitted(r, d.now)
		if len(all) == 0 {
			t.Errorf("%s: the run was admitted", name)
		}
		for _, b := range all {
			if len(b.String()) < 20 || b.Fault.Code.Entry().HTTP() != 503 {
				t.Errorf("%s: the blocker says %q with status %d", name, b, b.Fault.Code.Entry().HTTP())
			}
		}
	}
	d := admitted()
	d.hear(d.book.NodeLost(nodeOf(2), fault.New(fault.NodeDied, "", "name", "n2"), d.now))
	d.wantBlocked("n2")
}

// An offer is weights in place and no route: only a plan makes it a stage.
func TestAnOfferIsNoRouteOfARun(t *testing.T) {
	d := newDesk(t, Config{})
	d.admit(1)
	d.admit(3)
	c, _ := d.issue(2)
	r := d.report(2, c)
	r.Purpose, r.Run, r.Attempt = ForOffer, id.RunID{}, 0
	l, f := d.send(2, r)
	wantCode(t, f, "")
	if l.Purpose != ForOffer || l.Layers != middle {
		t.Errorf("the lease is %+v", l)
	}
	d.wantBlocked("n2")
}
