package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/store"
)

// large is an event of about n bytes.
func large(n int) event.Stamped {
	return event.Stamped{Time: noon, Event: event.WorkerStarted{Device: strings.Repeat("x", n)}}
}

func TestAFullDiskIsSaidAndLeavesWhatWasThere(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	add(t, s, 1)
	if err := s.LimitPages(40); err != nil {
		t.Fatal(err)
	}
	_, err := s.Append(ctx, started(2), large(1<<20))
	wantFault(t, err, fault.StoreDiskFull)
	if entries := since(t, s, 0, 10); len(entries) != 1 {
		t.Errorf("half of what did not fit is there: %d events", len(entries))
	}
	if err := s.LimitPages(1 << 20); err != nil {
		t.Fatal(err)
	}
	if last := add(t, s, 2); last != 2 {
		t.Errorf("after space was made the second event has the sequence %d", last)
	}
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	set(t, s, twoNodes())
	stopped, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	late, done := context.WithTimeout(context.Background(), time.Nanosecond)
	defer done()
	for name, call := range calls(s) {
		err := call(stopped)
		if f := wantFault(t, err, fault.RunInterrupted); !strings.Contains(f.Error(), "enough") {
			t.Errorf("%s does not say who stopped it: %v", name, f)
		}
		if f := wantFault(t, call(late), fault.StoreCallOverdue); f.Attr("op") != name {
			t.Errorf("%s is named %s", name, f.Attr("op"))
		}
	}
	_, err := store.Open(stopped, t.TempDir())
	wantFault(t, err, fault.RunInterrupted)
	_, err = store.Open(late, t.TempDir())
	wantFault(t, err, fault.StoreCallOverdue)
}

// calls are all methods that take a context, by their names.
func calls(s *store.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"SetPool": func(ctx context.Context) error { _, err := s.SetPool(ctx, store.Pool{Name: "x"}); return err },
		"Pool":    func(ctx context.Context) error { _, err := s.Pool(ctx, "shed"); return err },
		"Pools":   func(ctx context.Context) error { _, err := s.Pools(ctx); return err },
		"Append":  func(ctx context.Context) error { _, err := s.Append(ctx, started(1)); return err },
		"Since":   func(ctx context.Context) error { _, err := s.Since(ctx, 0, 1); return err },
		"Last":    func(ctx context.Context) error { _, err := s.Last(ctx); return err },
		"BeginRun": func(ctx context.Context) error {
			return s.BeginRun(ctx, someRun(1, store.Pool{Name: "shed", Epoch: 1}))
		},
		"EndRun":         func(ctx context.Context) error { return s.EndRun(ctx, runID(1), store.Outcome{Result: store.Stopped}) },
		"Run":            func(ctx context.Context) error { _, err := s.Run(ctx, runID(1)); return err },
		"Runs":           func(ctx context.Context) error { _, err := s.Runs(ctx, 1); return err },
		"UnfinishedRuns": func(ctx context.Context) error { _, err := s.UnfinishedRuns(ctx); return err },
		"CreateKey": func(ctx context.Context) error {
			_, _, err := s.CreateKey(ctx, store.NewKey{Name: "x"})
			return err
		},
		"HasKeys":   func(ctx context.Context) error { _, err := s.HasKeys(ctx); return err },
		"FindKey":   func(ctx context.Context) error { _, err := s.FindKey(ctx, "x"); return err },
		"Keys":      func(ctx context.Context) error { _, err := s.Keys(ctx); return err },
		"RevokeKey": func(ctx context.Context) error { _, err := s.RevokeKey(ctx, "x", noon); return err },
		"Grant":     func(ctx context.Context) error { _, err := s.Grant(ctx, "x", "r", 1, noon); return err },
		"Reserve": func(ctx context.Context) error {
			return s.Reserve(ctx, store.Reservation{Request: "r", Key: "x", Tokens: 1})
		},
		"Settle":           func(ctx context.Context) error { return s.Settle(ctx, "r", 1, noon) },
		"Release":          func(ctx context.Context) error { return s.Release(ctx, "r", "", noon) },
		"OpenReservations": func(ctx context.Context) error { _, err := s.OpenReservations(ctx); return err },
		"Ledger":           func(ctx context.Context) error { _, err := s.Ledger(ctx, "x", 0, 1); return err },

		"Setting":    func(ctx context.Context) error { _, _, err := s.Setting(ctx, "x"); return err },
		"SetSetting": func(ctx context.Context) error { return s.SetSetting(ctx, "x", "y") },
	}
}

// Another program, such as the sqlite3 shell in a transaction, holds the file.
func TestAHeldFileIsWaitedForAndThenSaid(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	set(t, s, twoNodes())
	other := raw(t, file(dir))
	other.SetMaxOpenConns(1)
	execute(t, other, "BEGIN IMMEDIATE")

	_, err := s.Append(context.Background(), started(1))
	wantFault(t, err, fault.StoreFileHeld)
	soon, done := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer done()
	_, err = s.Append(soon, started(1))
	wantFault(t, err, fault.StoreCallOverdue)
	if _, err := s.Pool(context.Background(), "shed"); err != nil {
		t.Errorf("reading does not wait for who writes, and this was said: %v", err)
	}
	execute(t, other, "ROLLBACK")
	if last := add(t, s, 1); last != 1 {
		t.Errorf("after refusals the first event has the sequence %d", last)
	}
}

func TestNothingIsDoneAfterClose(t *testing.T) {
	s := opened(t, t.TempDir())
	closed(t, s)
	for name, call := range calls(s) {
		if f := wantFault(t, call(context.Background()), fault.StoreClosed); f.Attr("op") != name {
			t.Errorf("%s is named %s", name, f.Attr("op"))
		}
	}
	closed(t, s)
}

func TestCloseWaitsForCallsUnderWay(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	var all sync.WaitGroup
	acknowledged := make(chan int, 1000)
	begun := make(chan struct{}, 4)
	for writer := range 4 {
		all.Go(func() {
			for n := range 250 {
				_, err := s.Append(context.Background(), started(writer*1000+n))
				if err != nil {
					wantClosed(t, err)
					return
				}
				acknowledged <- writer*1000 + n
				if n == 3 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-begun
	}
	closed(t, s)
	all.Wait()
	close(acknowledged)
	there := map[int]bool{}
	for _, e := range since(t, opened(t, dir), 0, 10_000) {
		there[pid(t, e)] = true
	}
	for n := range acknowledged {
		if !there[n] {
			t.Errorf("event %d was acknowledged and is gone", n)
		}
		delete(there, n)
	}
	if len(there) > 0 {
		t.Errorf("events %v were refused and are there", there)
	}
}

func wantClosed(t *testing.T, err error) {
	if !errors.Is(err, fault.StoreClosed) {
		t.Errorf("a call beside Close ended in %v", err)
	}
}

// What a trimmed journal frees is used again, and the file of changes is folded
// in: neither grows with the time the orchestrator runs.
func TestTheFolderDoesNotGrow(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, store.KeepEvents(100))
	fill := func() (size int64) {
		for range 60 {
			if _, err := s.Append(context.Background(), large(20_000), large(20_000), large(20_000), large(20_000), large(20_000)); err != nil {
				t.Fatal(err)
			}
			since(t, s, 0, 1)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		return size
	}
	first := fill()
	if second := fill(); second > first+first/10 {
		t.Errorf("the folder held %d bytes, and after as many events again %d", first, second)
	}
}
