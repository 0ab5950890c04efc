package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/store"
)

// spendForEver gives back what the process before it left open, and then serves
// requests of two keys, several at once, printing what it knows to be done. Of
// every four requests one is left open, one fails and two are settled.
func spendForEver(s *store.Store) error {
	ctx := context.Background()
	if err := recovered(ctx, s); err != nil {
		return err
	}
	for _, name := range []string{"left", "right"} {
		if _, _, err := s.CreateKey(ctx, store.NewKey{Name: name, Credit: 1 << 30, Created: noon}); err != nil && !errors.Is(err, fault.KeyNameTaken) {
			return err
		}
	}
	failed := make(chan error)
	for _, name := range []string{"left", "right", "right"} {
		go func() {
			for n := 0; ; n++ {
				if err := spend(ctx, s, name, n); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func recovered(ctx context.Context, s *store.Store) error {
	open, err := s.OpenReservations(ctx)
	for _, r := range open {
		if err := s.Release(ctx, r.Request, "recovered", noon); err != nil {
			return err
		}
	}
	return err
}

func spend(ctx context.Context, s *store.Store, name string, n int) error {
	request := fmt.Sprintf("%s-%s", name, rand.Text())
	if err := s.Reserve(ctx, store.Reservation{Request: request, Key: name, Run: runID(1), Tokens: 100, Time: noon}); err != nil {
		return err
	}
	fmt.Println("reserved", request)
	switch n % 4 {
	case 0:
		return nil
	case 1:
		if err := s.Release(ctx, request, "worker.killed", noon); err != nil {
			return err
		}
		fmt.Println("released", request)
		return nil
	}
	if err := s.Settle(ctx, request, int64(n%100), noon); err != nil {
		return err
	}
	fmt.Println("settled", request)
	return nil
}

// At whatever point the process dies, the ledger adds up: nothing that was
// acknowledged is gone, nothing is settled twice, and once what was left open has
// been given back, the balance is what was granted less what was settled.
func TestTheLedgerAddsUpAfterKill9(t *testing.T) {
	dir := t.TempDir()
	told := map[string]string{} // the last that was said of each request
	kills := []int{0, 1, 2, 3, 4, 5, 7, 11, 13, 17, 29, 64, 6, 40}
	for _, after := range kills {
		cmd, lines := spawn(t, "spend", dir)
		for n := -1; n < after; n++ { // the first line says that it is opening
			if !lines.Scan() {
				t.Fatalf("the child ended by itself: %v", lines.Err())
			}
			hear(told, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			hear(told, lines.Text())
		}
		_ = cmd.Wait() // only then is its lock gone
		checkLedger(t, dir, told)
	}
	if len(told) < 50 {
		t.Errorf("only %d requests were made", len(told))
	}
}

// hear takes "settled REQUEST".
func hear(told map[string]string, line string) {
	if what, request, ok := strings.Cut(line, " "); ok {
		told[request] = what
	}
}

func checkLedger(t *testing.T, dir string, told map[string]string) {
	t.Helper()
	s := opened(t, dir)
	defer closed(t, s)
	ctx := context.Background()
	open, err := s.OpenReservations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := readLedger(t, s, keys)
	if len(l.open) != len(open) {
		t.Errorf("%d reservations are open, by the ledger %d", len(open), len(l.open))
	}
	for request, what := range told {
		ends, ended := map[string]store.Kind{"settled": store.Settled, "released": store.Released}[what]
		if l.begun[request] == 0 || ended && l.ends[request] != ends {
			t.Errorf("%s was told to be %s, and is %q in the ledger", request, what, l.ends[request])
		}
	}
	for _, k := range keys {
		l.holds(t, k)
	}
	for range 2 { // a recovery that is killed is done again
		if err := recovered(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err = s.Keys(ctx); err != nil {
		t.Fatal(err)
	}
	after := readLedger(t, s, keys)
	if len(after.open) != 0 {
		t.Errorf("after the recovery %d reservations are open", len(after.open))
	}
	for _, k := range keys {
		after.holds(t, k)
		if k.Reserved != 0 || k.Balance != k.Granted-after.settled[k.ID] || after.settled[k.ID] != l.settled[k.ID] {
			t.Errorf("after the recovery the key is %+v", k)
		}
	}
}

// ledger is what its entries say, added up here.
type ledger struct {
	sum, granted, settled, reserved map[string]int64 // by key
	begun                           map[string]int64 // tokens reserved, by request
	open                            map[string]bool
	ends                            map[string]store.Kind
}

func readLedger(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *store.Store, keys []store.Key,
) ledger {
	t.Helper()
	l := ledger{
		sum: map[string]int64{}, granted: map[string]int64{}, settled: map[string]int64{}, reserved: map[string]int64{},
		begun: map[string]int64{}, open: map[string]bool{}, ends: map[string]store.Kind{},
	}
	for _, k := range keys {
		entries, err := s.Ledger(context.Background(), k.ID, 0, 10_000)
		if err != nil || len(entries) == 10_000 {
			t.Fatalf("%d entries (%v)", len(entries), err)
		}
		for _, e := range entries {
			l.sum[k.ID] += e.Tokens
			switch e.Kind {
			case store.Granted:
				l.granted[k.ID] += e.Tokens
				continue
			case store.Reserved:
				if l.begun[e.Request] != 0 {
					t.Fatalf("%s is reserved twice", e.Request)
				}
				l.begun[e.Request], l.open[e.Request] = -e.Tokens, true
				l.reserved[k.ID] -= e.Tokens
				continue
			case store.Settled:
				l.settled[k.ID] += l.begun[e.Request] - e.Tokens
			case store.Released: // all of it, else the sums differ
			}
			if !l.open[e.Request] {
				t.Fatalf("%s ends twice, or was never begun", e.Request)
			}
			delete(l.open, e.Request)
			l.ends[e.Request] = e.Kind
			l.reserved[k.ID] -= l.begun[e.Request]
		}
	}
	return l
}

// holds checks a key against the entries.
func (l ledger) holds(t interface {
	Helper()
	Errorf(string, ...any)
}, k store.Key,
) {
	t.Helper()
	if k.Balance != l.sum[k.ID] || k.Granted != l.granted[k.ID] || k.Spent != l.settled[k.ID] || k.Reserved != l.reserved[k.ID] ||
		k.Granted-k.Spent-k.Reserved != k.Balance {
		t.Errorf("the key is %+v; its entries grant %d, settle %d, hold %d and add up to %d",
			k, l.granted[k.ID], l.settled[k.ID], l.reserved[k.ID], l.sum[k.ID])
	}
}
