package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"muster/internal/core/admit"
	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// shop is a backend with keys: a prompt of 10 tokens is answered with as many as
// are asked for, until something happens.
type shop struct {
	Backend
	store    *store.Store
	blockers []admit.Blocker
	asked    int                                  // how often an answer was computed
	before   error                                // refuses before anything is accepted
	during   func(token int) (stop bool, _ error) // called before each token
}

const promptTokens = 10

func newShop(t *testing.T) *shop {
	t.Helper()
	s, err := store.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &shop{store: s, during: func(int) (bool, error) { return false, nil }}
	h.Backend = Backend{
		Model: "tale", Accounts: s, Generate: h.generate,
		Admitted: func(context.Context) ([]admit.Blocker, error) { return h.blockers, nil },
	}
	return h
}

func (h *shop) generate(_ context.Context, p Prompt, emit func(string) error) (Done, error) {
	if h.before != nil {
		return Done{}, h.before
	}
	if p.Accept != nil {
		if err := p.Accept(credit.In(4096, id.RunID{7}, promptTokens, p.MaxTokens)); err != nil {
			return Done{}, err
		}
	}
	h.asked++
	done := Done{PromptTokens: promptTokens, FinishReason: "length"}
	for len(done.Tokens) < p.MaxTokens {
		stop, err := h.during(len(done.Tokens))
		if err != nil {
			return done, err
		}
		if stop {
			break
		}
		done.Tokens = append(done.Tokens, 1)
		if err := emit("a"); err != nil {
			return done, err
		}
	}
	return done, nil
}

// key makes a key, and gives its secret.
func (h *shop) key(t *testing.T, tokens int64) (store.Key, string) {
	t.Helper()
	k, secret, err := h.store.CreateKey(t.Context(), store.NewKey{Name: "laptop", Credit: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

// entries are the ledger's after the first grant, in short.
func (h *shop) entries(t *testing.T, k store.Key) (kinds []store.Kind, balance int64) {
	t.Helper()
	all, err := h.store.Ledger(t.Context(), k.ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		balance += e.Tokens
		if e.Kind != store.Granted {
			kinds = append(kinds, e.Kind)
		}
		if e.Kind == store.Reserved && e.Run != (id.RunID{7}) {
			t.Errorf("reserved for the run %s", e.Run)
		}
	}
	if open, err := h.store.OpenReservations(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open are %+v (%v)", open, err)
	}
	return kinds, balance
}

// ask has a prompt answered with that header Authorization.
func (h *shop) ask(t *testing.T, authorization, body string) (status int, head http.Header, code string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/completions", bytes.NewReader([]byte(body)))
	r.RemoteAddr = "127.0.0.1:1"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.handler().ServeHTTP(w, r)
	var v struct {
		Error struct{ Code, Hint string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	if v.Error.Code != "" && v.Error.Hint == "" {
		t.Errorf("%s without a hint", v.Error.Code)
	}
	return w.Code, w.Header(), v.Error.Code
}

const fiveTokens = `{"prompt":"Once","max_tokens":5}`

func TestWithoutKeysNobodyIsAskedForOne(t *testing.T) {
	h := newShop(t)
	for _, authorization := range []string{"", "Bearer sk-of-another-service"} {
		if status, _, code := h.ask(t, authorization, fiveTokens); status != http.StatusOK {
			t.Errorf("answered %d %s", status, code)
		}
	}
	h.KeysDemanded = true
	if status, _, code := h.ask(t, "", fiveTokens); status != http.StatusUnauthorized || code != string(fault.KeySecretMissing) {
		t.Errorf("demanded, answered %d %s", status, code)
	}
}

func TestOnceThereIsAKeyEachRequestNeedsOne(t *testing.T) {
	h := newShop(t)
	k, secret := h.key(t, 100)
	gone, revoked, err := h.store.CreateKey(t.Context(), store.NewKey{Name: "gone", Credit: 100})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.RevokeKey(t.Context(), gone.ID, gone.Created); err != nil {
		t.Fatal(err)
	}
	h.blockers = []admit.Blocker{{Fault: fault.New(fault.OrchRequestRefused, "", "what", "x")}} // who has no key learns nothing of it
	for name, c := range map[string]struct {
		authorization string
		code          fault.Code
	}{
		"none":                {"", fault.KeySecretMissing},
		"an empty one":        {"Bearer ", fault.KeySecretMissing},
		"another scheme":      {"Basic " + secret, fault.KeySecretMissing},
		"no scheme":           {secret, fault.KeySecretMissing},
		"a wrong one":         {"Bearer msk-aaaa", fault.KeySecretUnknown},
		"one that is cut off": {"Bearer " + secret[:20], fault.KeySecretUnknown},
		"a revoked one":       {"Bearer " + revoked, fault.KeySecretRevoked},
	} {
		status, head, code := h.ask(t, c.authorization, fiveTokens)
		if status != http.StatusUnauthorized || code != string(c.code) || head.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("with %s: %d %s", name, status, code)
		}
	}
	if h.asked != 0 {
		t.Error("something was computed")
	}
	h.blockers = nil
	for _, scheme := range []string{"Bearer ", "bearer  "} {
		if status, _, code := h.ask(t, scheme+secret, fiveTokens); status != http.StatusOK {
			t.Errorf("with the key: %d %s", status, code)
		}
	}
	if kinds, balance := h.entries(t, k); len(kinds) != 4 || balance != 100-2*(promptTokens+5) {
		t.Errorf("%v leave %d", kinds, balance)
	}
}

// What is charged is what was delivered; each of these is proven by the ledger.
func TestTheLedgerHoldsWhatWasDelivered(t *testing.T) {
	var (
		settled  = []store.Kind{store.Reserved, store.Settled}
		returned = []store.Kind{store.Reserved, store.Released}
		killed   = fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "")
	)
	stale := func(code fault.Code) []admit.Blocker {
		return []admit.Blocker{{Name: "n2", Layers: [2]int{3, 6}, Fault: fault.New(code, "", "name", "n2", "layers", "3:6")}}
	}
	failsAt := func(at int, err error) func(int) (bool, error) {
		return func(token int) (bool, error) {
			if token == at {
				return false, err
			}
			return false, nil
		}
	}
	for name, c := range map[string]struct {
		blockers []admit.Blocker
		before   error
		during   func(int) (bool, error)
		body     string
		status   int
		kinds    []store.Kind
		charged  int64
	}{
		"an answer":                     {status: 200, kinds: settled, charged: promptTokens + 5},
		"one that ends early":           {during: func(token int) (bool, error) { return token == 2, nil }, status: 200, kinds: settled, charged: promptTokens + 2},
		"one without a token":           {during: func(int) (bool, error) { return true, nil }, status: 200, kinds: returned},
		"a fault before the first":      {during: failsAt(0, killed), status: 503, kinds: returned},
		"a fault in mid-answer":         {during: failsAt(3, killed), status: 503, kinds: returned},
		"a defect":                      {during: failsAt(3, errors.New("no")), status: 500, kinds: returned},
		"a run that was stopped":        {during: failsAt(3, fault.New(fault.RunInterrupted, "")), status: 503, kinds: returned},
		"no route":                      {blockers: stale(fault.AdmitRouteMissing), status: 503},
		"a failed validation":           {blockers: stale(fault.AdmitCheckFailed), status: 503},
		"a stale validation":            {blockers: stale(fault.AdmitReportExpired), status: 503},
		"a mismatched validation":       {blockers: stale(fault.AdmitRevisionMismatched), status: 503},
		"a lease that has run out":      {blockers: stale(fault.AdmitLeaseExpired), status: 503},
		"a route lost right before":     {before: stale(fault.AdmitRouteMissing)[0].Fault, status: 503},
		"what cannot be asked":          {body: `{"prompt":""}`, status: 400},
		"more than the credit reaches":  {body: `{"prompt":"Once","max_tokens":91}`, status: 402},
		"as much as the credit reaches": {body: `{"prompt":"Once","max_tokens":90}`, status: 200, kinds: settled, charged: 100},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t)
			k, secret := h.key(t, 100)
			h.blockers, h.before = c.blockers, c.before
			if c.during != nil {
				h.during = c.during
			}
			if c.body == "" {
				c.body = fiveTokens
			}
			status, _, code := h.ask(t, "Bearer "+secret, c.body)
			kinds, balance := h.entries(t, k)
			if status != c.status || len(kinds) != len(c.kinds) || balance != 100-c.charged {
				t.Fatalf("%d %s; the ledger has %v and leaves %d", status, code, kinds, balance)
			}
			for i, kind := range c.kinds {
				if kinds[i] != kind {
					t.Errorf("the ledger has %v", kinds)
				}
			}
			if status == http.StatusPaymentRequired && (code != string(fault.KeyCreditSpent) || h.asked != 0) {
				t.Errorf("%s, after %d answers", code, h.asked)
			}
		})
	}
}

// A key is made, granted and revoked over the API as in the store.
func TestKeysOverTheAPI(t *testing.T) {
	s, err := store.Memory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	b := Backend{Accounts: s}
	server := httptest.NewServer(b.handler())
	defer server.Close()
	c := NewClient(server.Listener.Addr().String())
	ctx := t.Context()
	if all, err := c.Keys(ctx); err != nil || all.Keys == nil || len(all.Keys) != 0 {
		t.Errorf("the keys are %+v (%v)", all, err)
	}
	made, err := c.CreateKey(ctx, store.NewKey{Name: "laptop", Credit: 5})
	if err != nil || made.Name != "laptop" || made.Balance != 5 || made.Created.IsZero() {
		t.Fatalf("made is %+v (%v)", made, err)
	}
	if found, err := s.FindKey(ctx, made.Secret); err != nil || found.ID != made.ID {
		t.Errorf("its secret finds %+v (%v)", found, err)
	}
	for range 2 {
		if k, err := c.Grant(ctx, Credit{Key: "laptop", Tokens: 7, Request: "g1"}); err != nil || k.Balance != 12 {
			t.Errorf("granted it is %+v (%v)", k, err)
		}
	}
	for code, err := range map[fault.Code]error{
		fault.KeyNameTaken:      second(c.CreateKey(ctx, store.NewKey{Name: "laptop"})),
		fault.KeyNameInvalid:    second(c.CreateKey(ctx, store.NewKey{Name: "../laptop"})),
		fault.KeyNameUnknown:    second(c.RevokeKey(ctx, "../keys")),
		fault.KeyRequestInvalid: second(c.Grant(ctx, Credit{Key: "laptop", Tokens: 7})),
		fault.KeyCreditInvalid:  second(c.Grant(ctx, Credit{Key: "laptop", Tokens: -7, Request: "g2"})),
	} {
		if !errors.Is(err, code) {
			t.Errorf("%v, want %s", err, code)
		}
	}
	if k, err := c.RevokeKey(ctx, made.ID); err != nil || k.Revoked == nil {
		t.Errorf("revoked it is %+v (%v)", k, err)
	}
	resp, err := http.Get(server.URL + "/api/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var listed bytes.Buffer
	if _, err := listed.ReadFrom(resp.Body); err != nil || bytes.Contains(listed.Bytes(), []byte(made.Secret)) || bytes.Contains(listed.Bytes(), []byte("hash")) {
		t.Errorf("listed is %s (%v)", &listed, err)
	}
}

func second[T any](_ T, err error) error { return err }
