package tracker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/tracker"
	"muster/internal/tracker/api"
)

// change registers node 2 with a report that is changed before it is signed.
func change(f func(r *admit.Report)) func(*bench) error {
	return func(b *bench) error {
		r := b.report(2, b.challenge(2))
		f(&r)
		_, err := b.register(2, r)
		return err
	}
}

// wanting registers node 2 where something else is wanted.
func wanting(f func(w *admit.Want)) func(*bench) error {
	return func(b *bench) error {
		b.owner.want(func(context.Context, admit.Report) (admit.Want, error) {
			w := wantOf(2)
			f(&w)
			return w, nil
		})
		_, err := b.register(2, b.report(2, b.challenge(2)))
		return err
	}
}

// forged sends what nobody signed.
func forged(f func(s *admit.Signed)) func(*bench) error {
	return func(b *bench) error {
		s, refused := admit.Sign(keyOf(2), b.report(2, b.challenge(2)))
		if refused != nil {
			return errors.New("not signed")
		}
		f(&s)
		_, err := b.node(2).Register(b.t.Context(), s)
		return err
	}
}

// posted sends a body of its own to a path, as node 2.
func posted(method, path, body string) func(*bench) error {
	return func(b *bench) error {
		got := b.ask(nodeOf(2), method, path, body)
		f, err := api.ParseProblem(got.body)
		if err != nil {
			return err
		}
		if got.status != f.Code.Entry().HTTP() {
			b.t.Errorf("%s came with status %d", f.Code, got.status)
		}
		return f
	}
}

// refusals has, for each code that a tracker answers by, what brings it about.
var refusals = map[fault.Code]func(*bench) error{
	fault.AdmitReportUnreadable:       posted("POST", api.RegisterPath, `{"report":{}}`),
	fault.AdmitReportInvalid:          forged(func(s *admit.Signed) { s.Report.Epoch = 0 }),
	fault.AdmitSchemaMismatched:       forged(func(s *admit.Signed) { s.Report.Schema = 2 }),
	fault.AdmitSignatureBroken:        forged(func(s *admit.Signed) { s.Report.Speed.TokenMicros++ }),
	fault.AdmitPurposeMismatched:      change(func(r *admit.Report) { r.Purpose, r.Run, r.Attempt = admit.ForOffer, id.RunID{}, 0 }),
	fault.AdmitRunMismatched:          change(func(r *admit.Report) { r.Run[15]++ }),
	fault.AdmitAttemptMismatched:      change(func(r *admit.Report) { r.Attempt++ }),
	fault.AdmitPoolMismatched:         change(func(r *admit.Report) { r.Pool = "work" }),
	fault.AdmitEpochMismatched:        change(func(r *admit.Report) { r.Epoch++ }),
	fault.AdmitOrchestratorMismatched: change(func(r *admit.Report) { r.Orchestrator = nodeOf(201) }),
	fault.AdmitBootMismatched:         change(func(r *admit.Report) { r.Boot[0]++ }),
	fault.AdmitModelMismatched:        change(func(r *admit.Report) { r.Depth++ }),
	fault.AdmitRevisionMismatched:     change(func(r *admit.Report) { r.Revision[0]++ }),
	fault.AdmitShardMismatched:        change(func(r *admit.Report) { r.Layers[1]-- }),
	fault.AdmitSliceMismatched:        change(func(r *admit.Report) { r.Slice[0]++ }),
	fault.AdmitRecipeMismatched:       change(func(r *admit.Report) { r.Recipe[0]++ }),
	fault.AdmitBackendMismatched:      change(func(r *admit.Report) { r.Backend[0]++ }),
	fault.AdmitReferenceMismatched:    change(func(r *admit.Report) { r.Referenced = true }),
	fault.AdmitChecksEmpty:            change(func(r *admit.Report) { r.Checks = nil }),
	fault.AdmitCheckUnknown:           change(func(r *admit.Report) { r.Checks[0].Name = "mood" }),
	fault.AdmitCheckRepeated:          change(func(r *admit.Report) { r.Checks[1] = r.Checks[0] }),
	fault.AdmitCheckMissing:           change(func(r *admit.Report) { r.Checks = r.Checks[1:] }),
	fault.AdmitCheckFailed:            change(func(r *admit.Report) { r.Checks[0].Got = 1 }),
	fault.AdmitCapacityShort:          change(func(r *admit.Report) { r.Capacity.Slots-- }),
	fault.AdmitSpeedMissing:           change(func(r *admit.Report) { r.Speed.TokenMicros = 0 }),
	fault.AdmitReportExpired:          change(func(r *admit.Report) { r.Age = time.Hour }),
	fault.AdmitReportPostdated:        change(func(r *admit.Report) { r.Age = -1 }),
	fault.AdmitForwardPredated:        change(func(r *admit.Report) { r.Age = 30 * time.Second }),
	fault.AdmitChallengeUnknown:       change(func(r *admit.Report) { r.Challenge[0]++ }),
	fault.AdmitShardUnwanted:          wanting(func(w *admit.Want) { *w = admit.Want{} }),
	fault.AdmitNodeMismatched: func(b *bench) error {
		s, f := admit.Sign(keyOf(3), b.report(3, b.challenge(3)))
		if f != nil {
			return errors.New("not signed")
		}
		_, err := b.node(2).Register(b.t.Context(), s) // by another's connection
		return err
	},
	fault.AdmitReportReplayed: func(b *bench) error {
		b.admit(2)
		r := b.report(2, b.challenge(2))
		r.Sequence = 1
		_, err := b.register(2, r)
		return err
	},
	fault.AdmitChallengeUsed: func(b *bench) error {
		r := b.report(2, b.challenge(2))
		if _, err := b.register(2, r); err != nil {
			return err
		}
		_, err := b.register(2, r)
		return err
	},
	fault.AdmitChallengeExpired: func(b *bench) error {
		c := b.challenge(2)
		time.Sleep(61 * time.Second)
		_, err := b.register(2, b.report(2, c))
		return err
	},
	fault.AdmitChallengesExhausted: func(b *bench) error {
		for range 4 {
			b.challenge(2)
		}
		_, err := b.node(2).Challenge(b.t.Context(), id.BootID{2})
		return err
	},
	fault.AdmitNodeHeld: func(b *bench) error {
		bad := change(func(r *admit.Report) { r.Recipe[0]++ })
		if bad(b) == nil {
			return nil
		}
		_, err := b.node(2).Challenge(b.t.Context(), id.BootID{2})
		return err
	},
	fault.AdmitRateExceeded: func(b *bench) error {
		for {
			_, err := b.node(2).Renew(b.t.Context(), renewal(2, admit.Challenge{1}))
			if f := fault.From(err); f == nil || f.Code != fault.AdmitLeaseUnknown {
				return err
			}
		}
	},
	fault.AdmitBookFull: func(b *bench) error {
		b.tracker = tracker.New(tracker.Config{Owner: b.owner, Rules: admit.Config{Nodes: 1}, Now: func() time.Duration { return 0 }})
		b.challenge(1)
		_, err := b.node(2).Challenge(b.t.Context(), id.BootID{2})
		return err
	},
	fault.AdmitRunEnded: func(b *bench) error {
		r := b.report(2, b.challenge(2))
		b.tracker.RunEnded(theRun, fault.New(fault.RunStopped, ""))
		_, err := b.register(2, r)
		return err
	},
	fault.AdmitLeaseUnknown: func(b *bench) error {
		_, err := b.node(2).Renew(b.t.Context(), renewal(2, admit.Challenge{1}))
		return err
	},
	fault.AdmitLeaseChanged: func(b *bench) error {
		r := renewal(2, b.admit(2).Lease)
		r.Backend[0]++
		_, err := b.node(2).Renew(b.t.Context(), r)
		return err
	},
	fault.TrackerRequestInvalid: posted("POST", api.ChallengePath, `{"boot":""}`),
	fault.TrackerBodyLarge:      posted("POST", api.RenewPath, strings.Repeat(" ", api.MostRequest+1)),
	fault.TrackerRouteUnknown:   posted("PUT", api.RegisterPath, `{}`),
	fault.TrackerPeerRefused:    posted("DELETE", api.NodesPath+"/"+nodeOf(3).String()+"?lease="+admit.Challenge{1}.String(), ""),
}

// elsewhere has the codes that no tracker answers by, with where they are seen.
var elsewhere = map[fault.Code]string{
	fault.AdmitChallengeMismatched: "the node's own judgement; the tracker looks its challenges up",
	fault.AdmitLeaseExpired:        "the end of a lease",
	fault.AdmitLeaseReplaced:       "the end of a lease",
	fault.AdmitLeaseReturned:       "the end of a lease",
	fault.AdmitRouteMissing:        "a blocker",
	fault.AdmitRunUncovered:        "a blocker",
	fault.TrackerCallOverdue:       "TestAnOwnerThatDoesNotKnowLetsNobodyIn and the client's own tests",
	fault.TrackerConnectionLost:    "the client's own tests",
	fault.TrackerAnswerInvalid:     "the client's own tests",
}

// figure is one that a fault did not fill in.
var figure = regexp.MustCompile(`\{[a-z_]+\}`)

func TestEveryRefusalArrivesAsItIs(t *testing.T) {
	for _, e := range fault.Catalogue() {
		if component, _, _ := strings.Cut(string(e.Code), "."); component != "admit" && component != "tracker" {
			continue
		}
		bring, ok := refusals[e.Code]
		if _, other := elsewhere[e.Code]; ok == other {
			t.Errorf("%s must be brought about here or be known to be seen elsewhere", e.Code)
		}
		if !ok {
			continue
		}
		t.Run(string(e.Code), func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				b := newBench(t)
				err := bring(b)
				wantCode(t, err, e.Code)
				f := fault.From(err)
				if f == nil {
					return
				}
				if figure.MatchString(f.Error() + f.Hint()) {
					t.Errorf("a figure is missing: %s; %s", f, f.Hint())
				}
				routes := 0
				for _, s := range b.tracker.Standings() {
					if s.Lease != nil {
						routes++
					}
				}
				holds := []fault.Code{fault.AdmitReportReplayed, fault.AdmitChallengeUsed} // by an earlier, sound report
				if want := slices.Contains(holds, e.Code); (routes > 0) != want {
					t.Errorf("%d routes are live after %s", routes, e.Code)
				}
			})
		})
	}
}

// The judge holds a report against the preset's tolerance, not against what the
// report says of it.
func TestTheTrackerHasItsOwnTolerance(t *testing.T) {
	b := newBench(t)
	b.owner.want(func(context.Context, admit.Report) (admit.Want, error) {
		w := wantOf(2)
		w.Referenced, w.Tolerance = true, probe.Tolerance{Cosine: 0.999, Relative: 0.05}
		return w, nil
	})
	r := b.report(2, b.challenge(2))
	r.Referenced = true
	r.Checks = append(
		r.Checks,
		probe.Check{Name: probe.Cosine, Passed: true, Got: 0.9, Limit: 0.5},
		probe.Check{Name: probe.Relative, Passed: true, Got: 0.01, Limit: 0.05},
	)
	_, err := b.register(2, r)
	wantCode(t, err, fault.AdmitCheckFailed)
	if f := fault.From(err); f.Attr("field") != probe.Cosine || f.Attr("got") != "0.9" || f.Attr("want") != "0.999" {
		t.Errorf("%+v", f.Attrs)
	}
}

func TestWhoMustWaitIsToldHowLong(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		for range 4 {
			b.challenge(2)
		}
		time.Sleep(500 * time.Millisecond)
		got := b.ask(nodeOf(2), http.MethodPost, api.ChallengePath, fmt.Sprintf(`{"boot":"%s"}`, id.BootID{2}))
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "60" {
			t.Errorf("status %d, wait %q", got.status, got.header.Get("Retry-After"))
		}
	})
}
