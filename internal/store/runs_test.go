package store_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

func begin(t testing.TB, s *store.Store, r store.Run) {
	t.Helper()
	if err := s.BeginRun(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

func TestARunIsKeptWithItsOneOutcome(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := opened(t, dir)
	p := set(t, s, twoNodes())
	lost := fault.New(fault.WorkerKilled, "worker 2", "signal", "SIGKILL", "log", "-").Because(errors.New("who knows"))
	lost.Node = "abcd2345"
	outcomes := []store.Outcome{
		{Result: store.Completed, Ended: noon},
		{Result: store.Faulted, Fault: lost, Ended: noon},
		{Result: store.Stopped, Ended: noon},
	}
	for i, o := range outcomes {
		begin(t, s, someRun(i, p))
		if err := s.EndRun(ctx, runID(i), o); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, s, someRun(3, p))
	closed(t, s)

	s = opened(t, dir)
	runs, err := s.Runs(ctx, 10)
	if err != nil || len(runs) != 4 || runs[0].ID != runID(3) || runs[3].ID != runID(0) {
		t.Fatalf("the runs are %+v (%v)", runs, err)
	}
	for i, o := range outcomes {
		want := someRun(i, p)
		want.Outcome = &o
		got, err := s.Run(ctx, runID(i))
		if err != nil {
			t.Fatal(err)
		}
		if got.Outcome.Fault != nil && got.Outcome.Fault.Error() == lost.Error() && errors.Is(got.Outcome.Fault, fault.WorkerKilled) {
			got.Outcome.Fault = lost
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("run %d is %+v, want %+v", i, got, want)
		}
		for _, second := range outcomes {
			err := s.EndRun(ctx, runID(i), second)
			if f := wantFault(t, err, fault.StoreOutcomeRecorded); f.Attr("result") != string(o.Result) {
				t.Errorf("run %d ended %s, a second outcome is answered with %v", i, o.Result, f)
			}
		}
	}
	if open, err := s.UnfinishedRuns(ctx); err != nil || len(open) != 1 || open[0].ID != runID(3) {
		t.Errorf("without an outcome are %+v (%v)", open, err)
	}
	if one, err := s.Runs(ctx, 1); err != nil || len(one) != 1 || one[0].ID != runID(3) {
		t.Errorf("the latest run is %+v (%v)", one, err)
	}
}

// A pool changed between plan and commit has not got the nodes of the plan.
func TestARunOfAnotherEpochIsRefused(t *testing.T) {
	s := opened(t, t.TempDir())
	old := set(t, s, twoNodes())
	now := old
	now.Nodes = now.Nodes[:1]
	now = set(t, s, now)
	err := s.BeginRun(context.Background(), someRun(1, old))
	wantFault(t, err, fault.StorePoolChanged)
	err = s.BeginRun(context.Background(), someRun(1, store.Pool{Name: "barn", Epoch: 1}))
	wantFault(t, err, fault.StorePoolUnknown)
	begin(t, s, someRun(1, now))
	err = s.BeginRun(context.Background(), someRun(1, now))
	wantFault(t, err, fault.StoreRunRepeated)
}

func TestARunThatCannotBeIsRefused(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	p := set(t, s, twoNodes())
	for what, spoil := range map[string]func(*store.Run){
		"no id":            func(r *store.Run) { r.ID = id.RunID{} },
		"no recipe":        func(r *store.Run) { r.Recipe = nil },
		"half a recipe":    func(r *store.Run) { r.Recipe = r.Recipe[1:] },
		"stages not there": func(r *store.Run) { r.Stages = []byte("") },
	} {
		r := someRun(1, p)
		spoil(&r)
		if err := s.BeginRun(ctx, r); !errors.Is(err, fault.StoreRunInvalid) {
			t.Errorf("%s is answered with %v", what, err)
		}
	}
	wantFault(t, s.EndRun(ctx, runID(1), store.Outcome{Result: store.Stopped}), fault.StoreRunUnknown)
	_, err := s.Run(ctx, runID(1))
	wantFault(t, err, fault.StoreRunUnknown)
	begin(t, s, someRun(1, p))
	for what, o := range map[string]store.Outcome{
		"an unknown result":   {Result: "gone"},
		"no result":           {},
		"a fault too many":    {Result: store.Completed, Fault: fault.New(fault.RunInterrupted, "")},
		"a fault not there":   {Result: store.Faulted},
		"stopped with fault":  {Result: store.Stopped, Fault: fault.New(fault.RunInterrupted, "")},
		"a result in capital": {Result: "Completed"},
	} {
		if err := s.EndRun(ctx, runID(1), o); !errors.Is(err, fault.StoreRunInvalid) {
			t.Errorf("%s is answered with %v", what, err)
		}
	}
	if r, err := s.Run(ctx, runID(1)); err != nil || r.Outcome != nil {
		t.Errorf("refused outcomes left %+v (%v)", r, err)
	}
}

func TestSettingsKeepTheLatest(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := opened(t, dir)
	if value, found, err := s.Setting(ctx, "profile"); value != "" || found || err != nil {
		t.Errorf("what was never set is %q, %v, %v", value, found, err)
	}
	for _, value := range []string{"lan", "", "wan"} {
		if err := s.SetSetting(ctx, "profile", value); err != nil {
			t.Fatal(err)
		}
		if got, found, err := s.Setting(ctx, "profile"); got != value || !found || err != nil {
			t.Errorf("%q came back as %q, %v, %v", value, got, found, err)
		}
	}
	closed(t, s)
	if got, _, err := opened(t, dir).Setting(ctx, "profile"); got != "wan" || err != nil {
		t.Errorf("after a restart it is %q (%v)", got, err)
	}
}
