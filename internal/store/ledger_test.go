package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/store"
)

// asks is a reservation of a key.
func asks(k store.Key, request string, tokens int64) store.Reservation {
	return store.Reservation{Request: request, Key: k.ID, Run: runID(1), Tokens: tokens, Time: noon}
}

func reserve(t testing.TB, s *store.Store, r store.Reservation) {
	t.Helper()
	if err := s.Reserve(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// only is the one key there is.
func only(t testing.TB, s *store.Store) store.Key {
	t.Helper()
	all, err := s.Keys(context.Background())
	if err != nil || len(all) != 1 {
		t.Fatalf("the keys are %+v (%v)", all, err)
	}
	return all[0]
}

func TestCreditIsReservedSettledAndGivenBackOnce(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	k, _ := keyed(t, s, "laptop", 100)
	wantFault(t, s.Settle(ctx, "r1", 5, noon), fault.KeyReservationUnknown)
	wantFault(t, s.Release(ctx, "r1", "x", noon), fault.KeyReservationUnknown)
	for range 2 {
		reserve(t, s, asks(k, "r1", 60))
		reserve(t, s, asks(k, "r2", 40))
	}
	if now := only(t, s); now.Balance != 0 || now.Reserved != 100 || now.Spent != 0 {
		t.Errorf("with two requests under way the key is %+v", now)
	}
	f := wantFault(t, s.Reserve(ctx, asks(k, "r3", 1)), fault.KeyCreditSpent)
	if f.Attr("balance") != "0" || f.Attr("want") != "1" || !strings.Contains(f.Hint(), "muster key credit laptop") {
		t.Errorf("of a spent credit this is said: %v; %s", f, f.Hint())
	}
	if open, err := s.OpenReservations(ctx); err != nil || len(open) != 2 || open[0] != asks(k, "r1", 60) {
		t.Errorf("open are %+v (%v)", open, err)
	}
	for range 2 {
		if err := s.Settle(ctx, "r1", 12, noon); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(ctx, "r2", "worker.killed", noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(ctx, "r1", "late", noon); err != nil { // and it stays settled
		t.Fatal(err)
	}
	if err := s.Settle(ctx, "r2", 40, noon); err != nil { // and it stays given back
		t.Fatal(err)
	}
	if now := only(t, s); now.Balance != 88 || now.Reserved != 0 || now.Spent != 12 {
		t.Errorf("after both have ended the key is %+v", now)
	}
	wantFault(t, s.Reserve(ctx, asks(k, "r1", 60)), fault.KeyRequestRepeated) // it would be answered for nothing
	entries, err := s.Ledger(ctx, k.ID, 0, 100)
	if err != nil || len(entries) != 5 {
		t.Fatalf("the ledger is %+v (%v)", entries, err)
	}
	if e := entries[4]; e.Kind != store.Released || e.Request != "r2" || e.Tokens != 40 || e.Why != "worker.killed" || e.Run != runID(1) || !e.Time.Equal(noon) {
		t.Errorf("the last entry is %+v", e)
	}
	if rest, err := s.Ledger(ctx, k.ID, entries[2].Sequence, 1); err != nil || len(rest) != 1 || rest[0] != entries[3] {
		t.Errorf("after the third comes %+v (%v)", rest, err)
	}
}

func TestNoRequestCostsMoreThanItReserved(t *testing.T) {
	s := opened(t, t.TempDir())
	k, _ := keyed(t, s, "laptop", 100)
	for request, cost := range map[string]int64{"r1": 11, "r2": -7} {
		reserve(t, s, asks(k, request, 10))
		if err := s.Settle(context.Background(), request, cost, noon); err != nil {
			t.Fatal(err)
		}
	}
	if now := only(t, s); now.Spent != 10 || now.Balance != 90 {
		t.Errorf("the key is %+v", now)
	}
}

func TestCreditIsGrantedOnceForEachRequest(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	k, _ := keyed(t, s, "laptop", 0)
	for range 2 {
		if now, err := s.Grant(ctx, "laptop", "g1", 30, noon); err != nil || now.Balance != 30 {
			t.Fatalf("granted 30 the key is %+v (%v)", now, err)
		}
	}
	if now, err := s.Grant(ctx, k.ID, "g2", 5, noon); err != nil || now.Granted != 35 {
		t.Errorf("granted 5 more it is %+v (%v)", now, err)
	}
	free, _, err := s.CreateKey(ctx, store.NewKey{Name: "free", Unlimited: true})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		which, request string
		tokens         int64
		code           fault.Code
	}{
		"nothing":             {"laptop", "g3", 0, fault.KeyCreditInvalid},
		"a debt":              {"laptop", "g3", -1, fault.KeyCreditInvalid},
		"too much in all":     {"laptop", "g3", store.MostCredit - 34, fault.KeyCreditInvalid},
		"to nobody":           {"desk", "g3", 1, fault.KeyNameUnknown},
		"to one that has all": {"free", "g3", 1, fault.KeyCreditUnlimited},
		"for no request":      {"laptop", "", 1, fault.KeyRequestInvalid},
		"another amount":      {"laptop", "g1", 31, fault.KeyRequestRepeated},
		"another key":         {"free", "g1", 30, fault.KeyRequestRepeated},
	} {
		_, err := s.Grant(ctx, c.which, c.request, c.tokens, noon)
		if f := wantFault(t, err, c.code); f == nil {
			t.Errorf("%s was granted", what)
		}
	}
	wantFault(t, s.Reserve(ctx, asks(k, "g1", 30)), fault.KeyRequestRepeated)
	wantFault(t, s.Reserve(ctx, asks(k, "r", 0)), fault.KeyRequestInvalid)
	wantFault(t, s.Reserve(ctx, asks(k, strings.Repeat("r", 129), 1)), fault.KeyRequestInvalid)
	reserve(t, s, asks(free, "r", 1_000_000))
	if keys, err := s.Keys(ctx); err != nil || keys[0].Granted != 35 || keys[1].Balance != -1_000_000 {
		t.Errorf("the keys are %+v (%v)", keys, err)
	}
}

// Requests at once never reserve more than there is.
func TestRequestsAtOnceCannotOverspend(t *testing.T) {
	s := opened(t, t.TempDir())
	k, _ := keyed(t, s, "laptop", 100)
	const clients, each = 24, 9
	got := make(chan error, clients)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { got <- s.Reserve(context.Background(), asks(k, string(rune('a'+n)), each)) })
	}
	all.Wait()
	close(got)
	taken := int64(0)
	for err := range got {
		if err == nil {
			taken++
			continue
		}
		wantFault(t, err, fault.KeyCreditSpent)
	}
	if now := only(t, s); taken != 100/each || now.Reserved != taken*each || now.Balance != 100-taken*each {
		t.Errorf("%d of %d requests were let in, and the key is %+v", taken, clients, now)
	}
}

// Whoever writes to the file, the ledger stays what it was.
func TestTheLedgerIsNeverChanged(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	k, _ := keyed(t, s, "laptop", 100)
	reserve(t, s, asks(k, "r1", 60))
	other := raw(t, file(dir))
	for _, text := range []string{
		"UPDATE ledger SET tokens = 1000 WHERE kind = 'grant'",
		"DELETE FROM ledger",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('" + k.ID + "', 'reserve', 'r2', -41, '')",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('" + k.ID + "', 'reserve', 'r1', -1, '')",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('" + k.ID + "', 'settle', 'r2', 1, '')",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('" + k.ID + "', 'settle', 'r1', 61, '')",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('" + k.ID + "', 'release', 'r1', 59, '')",
		"INSERT INTO ledger (key, kind, request, tokens, time) VALUES ('nobody', 'grant', 'g1', 1, '')",
	} {
		if _, err := other.ExecContext(t.Context(), "PRAGMA foreign_keys = 1; "+text); err == nil {
			t.Errorf("this was done: %s", text)
		}
	}
	if now := only(t, s); now.Granted != 100 || now.Reserved != 60 || now.Balance != 40 {
		t.Errorf("the key is %+v", now)
	}
}
