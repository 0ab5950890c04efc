package store_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
	"muster/internal/store"
)

// purse is a key as the naive oracle has it.
type purse struct {
	granted, spent int64
	unlimited      bool
	revoked        bool
	id             string
}

// paying is a request of the oracle.
type paying struct {
	key      string
	reserved int64
	ended    bool
}

// till is a ledger in two maps, without any entries.
type till struct {
	keys     map[string]*purse
	requests map[string]*paying
}

func (o *till) reserved(name string) (sum int64) {
	for _, r := range o.requests {
		if r.key == name && !r.ended {
			sum += r.reserved
		}
	}
	return sum
}

func (o *till) balance(name string) int64 {
	return o.keys[name].granted - o.keys[name].spent - o.reserved(name)
}

// Any sequence of calls, repeated and out of order, with the store closed and
// opened in between, gives what two maps give; and the entries add up to it.
func TestTheLedgerIsWhatTwoMapsWouldBe(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("25"); err != nil { // each waits for a disk many times
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	root, folders := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		folders++
		dir := filepath.Join(root, strconv.Itoa(folders))
		ctx := context.Background()
		open := func() *store.Store {
			s, err := store.Open(ctx, dir)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open()
		defer func() { _ = s.Close() }()
		o := &till{keys: map[string]*purse{}, requests: map[string]*paying{}}
		for name, credit := range map[string]int64{"left": 0, "right": 40, "free": 0} {
			p := &purse{unlimited: name == "free", granted: credit}
			k, _, err := s.CreateKey(ctx, store.NewKey{Name: name, Unlimited: p.unlimited, Credit: p.granted, Created: noon})
			if err != nil {
				t.Fatal(err)
			}
			p.id, o.keys[name] = k.ID, p
		}
		grants := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"grant":   func(t *rapid.T) { o.grant(t, s, grants) },
			"reserve": func(t *rapid.T) { o.reserve(t, s) },
			"settle":  func(t *rapid.T) { o.end(t, s, true) },
			"release": func(t *rapid.T) { o.end(t, s, false) },
			"revoke": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
					name, p := o.key(t)
					_, err := s.RevokeKey(ctx, p.id, noon)
					want(t, err, "")
					o.keys[name].revoked = true
				}
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open()
			},
			"": func(t *rapid.T) { o.compare(t, s) },
		})
	})
}

func (o *till) key(t *rapid.T) (string, *purse) {
	name := rapid.SampledFrom([]string{"left", "right", "free"}).Draw(t, "key")
	return name, o.keys[name]
}

func (o *till) grant(t *rapid.T, s *store.Store, grants map[string]bool) {
	_, p := o.key(t)
	tokens := rapid.Int64Range(1, 3).Draw(t, "tens") * 10
	request := fmt.Sprint("grant of ", tokens, " to ", p.id, " no. ", rapid.IntRange(0, 3).Draw(t, "number"))
	_, err := s.Grant(context.Background(), p.id, request, tokens, noon)
	switch {
	case grants[request]:
		want(t, err, "")
	case p.revoked:
		want(t, err, fault.KeyNameUnknown)
	case p.unlimited:
		want(t, err, fault.KeyCreditUnlimited)
	default:
		want(t, err, "")
		grants[request] = true
		p.granted += tokens
	}
}

func (o *till) request(t *rapid.T) string {
	return fmt.Sprint("request ", rapid.IntRange(0, 12).Draw(t, "request"))
}

func (o *till) reserve(t *rapid.T, s *store.Store) {
	name, p := o.key(t)
	request, tokens := o.request(t), rapid.Int64Range(1, 60).Draw(t, "tokens")
	had := o.requests[request]
	if had != nil && rapid.Bool().Draw(t, "again") {
		name, tokens = had.key, had.reserved
		p = o.keys[name]
	}
	err := s.Reserve(context.Background(), store.Reservation{Request: request, Key: p.id, Run: runID(1), Tokens: tokens, Time: noon})
	switch {
	case had != nil && (had.key != name || had.reserved != tokens || had.ended):
		want(t, err, fault.KeyRequestRepeated)
	case had != nil:
		want(t, err, "")
	case p.revoked:
		want(t, err, fault.KeySecretRevoked)
	case !p.unlimited && o.balance(name) < tokens:
		want(t, err, fault.KeyCreditSpent)
	default:
		want(t, err, "")
		o.requests[request] = &paying{key: name, reserved: tokens}
	}
}

func (o *till) end(t *rapid.T, s *store.Store, settles bool) {
	request, cost := o.request(t), rapid.Int64Range(0, 70).Draw(t, "cost")
	var err error
	if settles {
		err = s.Settle(context.Background(), request, cost, noon)
	} else {
		err = s.Release(context.Background(), request, "worker.killed", noon)
	}
	had := o.requests[request]
	if had == nil {
		want(t, err, fault.KeyReservationUnknown)
		return
	}
	want(t, err, "")
	if !had.ended && settles {
		o.keys[had.key].spent += min(cost, had.reserved)
	}
	had.ended = true
}

func (o *till) compare(t *rapid.T, s *store.Store) {
	keys, err := s.Keys(context.Background())
	if err != nil || len(keys) != len(o.keys) {
		t.Fatalf("there are %d keys (%v)", len(keys), err)
	}
	l := readLedger(t, s, keys)
	for _, k := range keys {
		l.holds(t, k)
		if p := o.keys[k.Name]; k.Granted != p.granted || k.Spent != p.spent || k.Balance != o.balance(k.Name) || (k.Revoked != nil) != p.revoked {
			t.Fatalf("the key is %+v, want %+v with %d left", k, p, o.balance(k.Name))
		}
		if !k.Unlimited && k.Balance < 0 {
			t.Fatalf("overspent: %+v", k)
		}
	}
	open, err := s.OpenReservations(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range open {
		if had := o.requests[r.Request]; had == nil || had.ended || had.reserved != r.Tokens || o.keys[had.key].id != r.Key {
			t.Fatalf("open is %+v, want %+v", r, had)
		}
	}
	if len(open) != len(l.open) {
		t.Fatalf("%d are open, by the entries %d", len(open), len(l.open))
	}
}
