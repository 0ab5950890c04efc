package tracker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/tracker"
	"muster/internal/tracker/api"
)

func (b *bench) wantBlocked(names ...string) {
	b.t.Helper()
	var got []string
	for _, x := range b.tracker.Admitted(theStages()) {
		got = append(got, x.Name)
	}
	if !reflect.DeepEqual(got, names) {
		b.t.Errorf("blocked by %q, want %q", got, names)
	}
}

func (b *bench) wantTold(want ...string) {
	b.t.Helper()
	if got := b.owner.heard(); !reflect.DeepEqual(got, want) {
		b.t.Errorf("told %q, want %q", got, want)
	}
}

func TestNodesAreAdmittedAndARunWithThem(t *testing.T) {
	b := newBench(t)
	b.wantBlocked("n1", "n2", "n3")
	leases := map[byte]api.LeaseAnswer{}
	for _, n := range []byte{2, 1, 3} {
		leases[n] = b.admit(n)
	}
	b.wantBlocked()
	b.wantTold("granted 2", "granted 1", "granted 3")
	if l := leases[1]; l.LastsMS != 10_000 || l.RenewMS != 3000 || l.Lease.IsZero() {
		t.Errorf("the lease is %+v", l)
	}
	again, err := b.node(1).Renew(t.Context(), renewal(1, leases[1].Lease))
	if err != nil || again != leases[1] {
		t.Errorf("renewed as %+v, %v", again, err)
	}
	if err := b.node(2).Withdraw(t.Context(), leases[2].Lease); err != nil {
		t.Error(err)
	}
	b.wantBlocked("n2")
	b.wantTold("ended 2 admit.lease_returned")
	b.tracker.NodeLost(nodeOf(1), fault.New(fault.NodeSuspected, "", "name", "n1"))
	b.tracker.BootChanged(nodeOf(3), id.BootID{9})
	b.wantBlocked("n1", "n2", "n3")
	b.wantTold("ended 1 node.suspected", "ended 3 node.restarted")
	b.admit(1)
	b.wantTold("granted 1")
	b.tracker.RunEnded(theRun, fault.New(fault.RunStopped, ""))
	b.wantTold("ended 1 run.stopped")

	want := []string{
		"POST /v1/nodes/challenge", "POST /v1/nodes/register", "POST /v1/nodes/challenge", "POST /v1/nodes/register",
		"POST /v1/nodes/challenge", "POST /v1/nodes/register", "POST /v1/nodes/renew", "DELETE /v1/nodes/" + nodeOf(2).String(),
		"POST /v1/nodes/challenge", "POST /v1/nodes/register",
	}
	if got := b.requests.Lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("captured %q, want %q", got, want)
	}
}

func TestTheListOfNodesShowsRoutesAndRefusals(t *testing.T) {
	b := newBench(t)
	b.admit(1)
	bad := b.report(2, b.challenge(2))
	bad.Checks[0].Passed = false
	_, err := b.register(2, bad)
	wantCode(t, err, fault.AdmitCheckFailed)
	b.challenge(3)
	got := b.ask(nodeOf(3), http.MethodGet, api.NodesPath, "")
	if got.status != http.StatusOK {
		t.Fatalf("%d: %s", got.status, got.body)
	}
	var list api.NodesAnswer
	if err := json.Unmarshal(got.body, &list); err != nil {
		t.Fatal(err)
	}
	seen := map[id.NodeID]api.Node{}
	for _, n := range list.Nodes {
		seen[n.Node] = n
	}
	if len(seen) != 3 {
		t.Fatalf("%s", got.body)
	}
	if n := seen[nodeOf(1)]; n.Route == nil || n.Route.Binding != bindingOf(1) || n.Route.LastsMS <= 0 || n.Fault != nil {
		t.Errorf("node 1 is %+v", n)
	}
	if n := seen[nodeOf(2)]; n.Route != nil || n.Fault == nil || n.Fault.Code != fault.AdmitCheckFailed || n.Failures != 1 || n.HeldMS <= 0 {
		t.Errorf("node 2 is %+v", n)
	}
	if n := seen[nodeOf(3)]; n.Route != nil || n.Fault != nil {
		t.Errorf("node 3 is %+v", n)
	}
}

func TestALeaseEndsByItselfWhenItsTimeIsOver(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.tracker.Run(ctx) })
		defer running.Wait()
		defer cancel()
		l := b.admit(2)
		b.wantTold("granted 2")
		for range 5 {
			time.Sleep(9 * time.Second)
			if _, err := b.node(2).Renew(t.Context(), renewal(2, l.Lease)); err != nil {
				t.Fatal(err)
			}
		}
		b.wantTold()
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		b.wantTold()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		b.wantTold("ended 2 admit.lease_expired")
		_, err := b.node(2).Renew(t.Context(), renewal(2, l.Lease))
		wantCode(t, err, fault.AdmitLeaseUnknown)
		if f := fault.From(err); f.Cause == nil || !strings.Contains(f.Cause.Error(), "not renewed") {
			t.Errorf("the cause is %v", f.Cause)
		}
	})
}

// A tracker that is started anew knows nobody; a new challenge and a new report
// bring a node back, and nothing older does.
func TestATrackerThatWasAwayIsRegisteredWithAgain(t *testing.T) {
	b := newBench(t)
	c := b.challenge(2)
	r := b.report(2, c)
	l, err := b.register(2, r)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	b.tracker = tracker.New(tracker.Config{Owner: b.owner, Now: func() time.Duration { return time.Since(began) }})
	_, err = b.node(2).Renew(t.Context(), renewal(2, l.Lease))
	wantCode(t, err, fault.AdmitLeaseUnknown)
	_, err = b.register(2, r)
	wantCode(t, err, fault.AdmitChallengeUnknown)
	b.wantBlocked("n1", "n2", "n3")
	b.admit(2)
	b.wantBlocked("n1", "n3")
}

func TestAnOwnerThatDoesNotKnowLetsNobodyIn(t *testing.T) {
	cases := map[string]struct {
		wanted func(ctx context.Context, r admit.Report) (admit.Want, error)
		code   fault.Code
	}{
		"wants nothing": {func(context.Context, admit.Report) (admit.Want, error) { return admit.Want{}, nil }, fault.AdmitShardUnwanted},
		"has its reason": {func(context.Context, admit.Report) (admit.Want, error) {
			return wantOf(2), fault.New(fault.OrchStarved, "orch")
		}, fault.OrchStarved},
		"has no fault": {func(context.Context, admit.Report) (admit.Want, error) { return wantOf(2), errors.New("odd") }, fault.InternalUnexpected},
		"does not answer": {func(ctx context.Context, _ admit.Report) (admit.Want, error) {
			<-ctx.Done()
			return wantOf(2), ctx.Err()
		}, fault.TrackerCallOverdue},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				b := newBench(t)
				b.owner.want(c.wanted)
				_, err := b.register(2, b.report(2, b.challenge(2)))
				wantCode(t, err, c.code)
				b.wantBlocked("n1", "n2", "n3")
				b.owner.want(nil)
				b.admit(2) // nobody was held off for it
			})
		})
	}
}

// The owner's answer is of a moment before: what ended meanwhile ends this too.
func TestWhatIsLostWhileTheOwnerAnswersIsNotAdmitted(t *testing.T) {
	for name, lose := range map[string]func(*tracker.Tracker){
		"the node": func(k *tracker.Tracker) { k.NodeLost(nodeOf(2), fault.New(fault.NodeSuspected, "")) },
		"its boot": func(k *tracker.Tracker) { k.BootChanged(nodeOf(2), id.BootID{9}) },
		"its run":  func(k *tracker.Tracker) { k.RunEnded(theRun, fault.New(fault.RunStopped, "")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.owner.want(func(context.Context, admit.Report) (admit.Want, error) {
				lose(b.tracker)
				return wantOf(2), nil
			})
			if _, err := b.register(2, b.report(2, b.challenge(2))); err == nil {
				t.Error("it was admitted")
			}
			b.wantBlocked("n1", "n2", "n3")
		})
	}
}

func TestManyNodesAtOnce(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running, asking sync.WaitGroup
	running.Go(func() { b.tracker.Run(ctx) })
	for n := byte(1); n <= 3; n++ {
		asking.Go(func() {
			for sequence := range uint64(5) {
				a, err := b.node(n).Challenge(t.Context(), id.BootID{n})
				if err != nil {
					t.Error(err)
					return
				}
				s, f := admit.Sign(keyOf(n), reportOf(n, a.Challenge, sequence+1))
				if f != nil {
					t.Error(f)
					return
				}
				l, err := b.node(n).Register(t.Context(), s)
				if err != nil {
					t.Error(fmt.Errorf("node %d: %w", n, err))
					return
				}
				if _, err := b.node(n).Renew(t.Context(), renewal(n, l.Lease)); err != nil {
					t.Error(err)
				}
				b.tracker.Standings()
				b.tracker.Admitted(theStages())
			}
		})
	}
	asking.Wait()
	cancel()
	running.Wait()
	b.wantBlocked()
}
