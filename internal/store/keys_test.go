package store_test

import (
	"bytes"
	"context"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/store"
)

// keyed makes a key of so much credit, and its secret.
func keyed(t testing.TB, s *store.Store, name string, credit int64) (store.Key, string) {
	t.Helper()
	k, secret, err := s.CreateKey(context.Background(), store.NewKey{Name: name, Credit: credit, Created: noon})
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func TestAKeyIsKeptWithoutItsSecret(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	ctx := context.Background()
	if has, err := s.HasKeys(ctx); err != nil || has {
		t.Errorf("a new store has keys (%v)", err)
	}
	k, secret := keyed(t, s, "laptop", 500)
	if !regexp.MustCompile(`^msk-[a-z2-7]{52}$`).MatchString(secret) || !regexp.MustCompile(`^k[0-9a-f]{12}$`).MatchString(k.ID) {
		t.Errorf("the key %s has the secret %s", k.ID, secret)
	}
	want := store.Key{ID: k.ID, Name: "laptop", Created: noon, Granted: 500, Balance: 500}
	if !reflect.DeepEqual(k, want) {
		t.Errorf("it is made as %+v, want %+v", k, want)
	}
	if _, other := keyed(t, s, "desk", 0); other == secret {
		t.Error("two keys have one secret")
	}
	closed(t, s)
	kept, err := os.ReadFile(file(dir))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(kept, []byte(strings.TrimPrefix(secret, "msk-"))) {
		t.Error("the secret lies in the file")
	}

	s = opened(t, dir)
	if found, err := s.FindKey(ctx, secret); err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("its secret finds %+v (%v)", found, err)
	}
	for _, wrong := range []string{"", "msk-", secret[:len(secret)-1], secret + "a", strings.ToUpper(secret), k.ID, "laptop"} {
		_, err := s.FindKey(ctx, wrong)
		if f := wantFault(t, err, fault.KeySecretUnknown); wrong != "" && strings.Contains(f.Error(), wrong) {
			t.Errorf("a secret that was tried is repeated: %v", f)
		}
	}
	if all, err := s.Keys(ctx); err != nil || len(all) != 2 || all[0].Name != "laptop" || all[1].Name != "desk" {
		t.Errorf("the keys are %+v (%v)", all, err)
	}
}

func TestKeysThatCannotBeMade(t *testing.T) {
	s := opened(t, t.TempDir())
	keyed(t, s, "laptop", 0)
	for name, c := range map[string]struct {
		key  store.NewKey
		code fault.Code
	}{
		"without a name":         {store.NewKey{}, fault.KeyNameInvalid},
		"a name with a space":    {store.NewKey{Name: "my laptop"}, fault.KeyNameInvalid},
		"a name that is too big": {store.NewKey{Name: strings.Repeat("a", 65)}, fault.KeyNameInvalid},
		"a name like an id":      {store.NewKey{Name: "k0123456789ab"}, fault.KeyNameInvalid},
		"a name with a newline":  {store.NewKey{Name: "laptop\n"}, fault.KeyNameInvalid},
		"a name that is taken":   {store.NewKey{Name: "laptop"}, fault.KeyNameTaken},
		"a debt":                 {store.NewKey{Name: "x", Credit: -1}, fault.KeyCreditInvalid},
		"too much credit":        {store.NewKey{Name: "x", Credit: store.MostCredit + 1}, fault.KeyCreditInvalid},
		"both":                   {store.NewKey{Name: "x", Credit: 5, Unlimited: true}, fault.KeyCreditInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, secret, err := s.CreateKey(context.Background(), c.key)
			if wantFault(t, err, c.code); secret != "" {
				t.Error("a secret was given all the same")
			}
		})
	}
	if all, err := s.Keys(context.Background()); err != nil || len(all) != 1 {
		t.Errorf("what was refused left %+v (%v)", all, err)
	}
}

func TestARevokedKeyNeverCountsAgain(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	first, secret := keyed(t, s, "laptop", 100)
	open := store.Reservation{Request: "r1", Key: first.ID, Tokens: 10, Time: noon}
	if err := s.Reserve(ctx, open); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second changes nothing
		k, err := s.RevokeKey(ctx, first.ID, noon.Add(time.Duration(10)))
		if err != nil || k.Revoked == nil || k.Balance != 90 {
			t.Fatalf("revoked it is %+v (%v)", k, err)
		}
	}
	_, err := s.FindKey(ctx, secret)
	if f := wantFault(t, err, fault.KeySecretRevoked); f.Attr("name") != "laptop" {
		t.Errorf("its secret finds %v", f)
	}
	wantFault(t, s.Reserve(ctx, store.Reservation{Request: "r2", Key: first.ID, Tokens: 1}), fault.KeySecretRevoked)
	for _, which := range []string{"laptop", first.ID} {
		_, err = s.Grant(ctx, which, "g1", 5, noon)
		wantFault(t, err, fault.KeyNameUnknown)
	}
	_, err = s.RevokeKey(ctx, "laptop", noon)
	wantFault(t, err, fault.KeyNameUnknown)
	if err := s.Settle(ctx, "r1", 4, noon); err != nil {
		t.Errorf("a request under way is not settled: %v", err)
	}
	second, _ := keyed(t, s, "laptop", 7) // its name is free
	all, err := s.Keys(ctx)
	if err != nil || len(all) != 2 || all[0].Spent != 4 || all[0].Balance != 96 || all[1].ID != second.ID || all[1].Revoked != nil {
		t.Errorf("the keys are %+v (%v)", all, err)
	}
	if has, err := s.HasKeys(ctx); err != nil || !has {
		t.Errorf("there are no keys (%v)", err)
	}
}
