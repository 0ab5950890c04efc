//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/gateway"
	"muster/internal/store"
)

// Without an orchestrator keys are made and changed in its folder.
func TestKeysAreMadeInTheFolder(t *testing.T) {
	b := newBench(t)
	data := []string{"--data", b.dir + "/orchestrator"}
	of := func(args ...string) []string { return slices.Concat([]string{"key"}, args, data) }
	for _, args := range [][]string{{"list"}, {"revoke", "laptop"}, {"credit", "laptop", "5"}} {
		b.refuses("key.store_missing", of(args...)...)
	}
	said := b.does(of("create", "laptop", "--credit", "1000")...)
	secret, rest, _ := strings.Cut(said, "\n")
	if !strings.HasPrefix(secret, "msk-") || !strings.Contains(rest, "has 1000 tokens left") {
		t.Fatalf("it said %q", said)
	}
	free := object[gateway.MadeKey](t, b.run(of("create", "desk", "--unlimited", "--json")...))
	if free.Name != "desk" || !free.Unlimited || !strings.HasPrefix(free.Secret, "msk-") || free.Secret == secret {
		t.Errorf("made is %+v", free)
	}
	if said := b.does(of("credit", "laptop", "50")...); !strings.Contains(said, "has 1050 tokens left") {
		t.Errorf("it said %q", said)
	}
	for code, args := range map[string][]string{
		"key.name_taken":       {"create", "laptop"},
		"key.name_invalid":     {"create", "my laptop"},
		"key.name_unknown":     {"revoke", "phone"},
		"key.credit_invalid":   {"credit", "laptop", "many"},
		"key.credit_unlimited": {"credit", "desk", "5"},
		"cli.argument_unknown": {"create"},
		"cli.flag_invalid":     {"create", "x", "--credit", "many"},
	} {
		b.refuses(code, of(args...)...)
	}
	b.refuses("key.credit_invalid", of("create", "x", "--unlimited", "--credit", "5")...)
	if said := b.does(of("revoke", free.ID)...); !strings.Contains(said, "desk") || !strings.Contains(said, "revoked") {
		t.Errorf("it said %q", said)
	}
	listed := b.does(of("list")...)
	for _, want := range []string{"laptop  k", "  1050", "desk    k", "  revoked"} {
		if !strings.Contains(listed, want) {
			t.Errorf("no %q in\n%s", want, listed)
		}
	}
	if strings.Contains(listed, "msk-") {
		t.Errorf("a secret is listed:\n%s", listed)
	}
	if all := object[gateway.Keys](t, b.run(of("list", "--json")...)); len(all.Keys) != 2 || all.Keys[0].Balance != 1050 || all.Keys[1].Revoked == nil {
		t.Errorf("listed are %+v", all)
	}
	kept, err := os.ReadFile(filepath.Join(data[1], "muster.db"))
	must(t, err)
	if bytes.Contains(kept, []byte(secret)) {
		t.Error("the secret lies in the folder")
	}
}

// posted is what an answer to /v1/completions has.
type posted struct {
	status int
	Usage  struct {
		Total int64 `json:"total_tokens"`
	}
	Error struct{ Code, Hint string }
}

func (p *pool) post(secret, body string) (got posted) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.http+"/v1/completions", strings.NewReader(body))
	must(p.t, err)
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return got // the orchestrator has gone
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	got.status = resp.StatusCode
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		must(p.t, json.Unmarshal(text, &got))
	}
	return got
}

func (p *pool) key() store.Key {
	p.t.Helper()
	all := object[gateway.Keys](p.t, p.run("key", "list", "--json"))
	if len(all.Keys) != 1 {
		p.t.Fatalf("the keys are %+v", all)
	}
	return all.Keys[0]
}

// reserves waits until so much is reserved.
func (p *pool) reserves(is func(tokens int64) bool) {
	p.t.Helper()
	for deadline := time.Now().Add(poolWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is(p.key().Reserved) {
			return
		}
	}
	p.t.Fatalf("the key is %+v", p.key())
}

// Keys of an orchestrator that runs: a request is charged what it was given, and
// nothing where the orchestrator or a node was killed in the middle of it.
func TestACreditIsSpentOnWhatWasDelivered(t *testing.T) {
	p := newPool(t, 2, "--model", endless(t))
	p.serving()
	const short = `{"prompt":"Once","max_tokens":5}`
	if got := p.post("", short); got.status != http.StatusOK {
		t.Fatalf("without any key: %+v", got)
	}
	made := object[gateway.MadeKey](t, p.run("key", "create", "laptop", "--credit", "5000", "--json"))
	if got := p.post("", short); got.status != http.StatusUnauthorized || got.Error.Code != "key.secret_missing" {
		t.Errorf("without the key: %+v", got)
	}
	got := p.post(made.Secret, short)
	if now := p.key(); got.status != http.StatusOK || got.Usage.Total < 6 || now.Spent != got.Usage.Total || now.Balance != 5000-got.Usage.Total || now.Reserved != 0 {
		t.Fatalf("answered %+v, the key is %+v", got, now)
	}
	before := p.key()

	long := make(chan posted, 1)
	ask := func() {
		go func() { long <- p.post(made.Secret, `{"prompt":"Once","max_tokens":4000,"temperature":0}`) }()
		p.reserves(func(tokens int64) bool { return tokens >= 4000 })
	}
	ask()
	if got := p.post(made.Secret, `{"prompt":"Once","max_tokens":4000}`); got.status != http.StatusPaymentRequired || !strings.Contains(got.Error.Hint, "muster key credit laptop") {
		t.Errorf("beside one that has reserved all: %+v", got)
	}
	p.kill("n2")
	if got := <-long; got.status < 500 || got.Error.Code == "" {
		t.Errorf("a node was killed: %+v", got)
	}
	p.reserves(func(tokens int64) bool { return tokens == 0 })
	if now := p.key(); now.Spent != before.Spent || now.Balance != before.Balance {
		t.Errorf("a node was killed, and the key is %+v, before %+v", now, before)
	}
	if got := p.post(made.Secret, short); got.status != http.StatusServiceUnavailable || p.key().Balance != before.Balance {
		t.Errorf("no run serves: %+v, the key is %+v", got, p.key())
	}
	p.start("n2")
	p.serving()
	ask()
	p.end(p.server)
	<-long
	p.startServer()
	if now := p.key(); now.Reserved != 0 || now.Spent != before.Spent || now.Balance != before.Balance {
		t.Errorf("the orchestrator was killed, and the key is %+v, before %+v", now, before)
	}
	p.does("key", "revoke", "laptop")
	if got := p.post(made.Secret, short); got.status != http.StatusUnauthorized || got.Error.Code != "key.secret_revoked" {
		t.Errorf("revoked: %+v", got)
	}
}
