package tracker_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/id"
	"muster/internal/tracker"
	"muster/internal/tracker/api"
)

// pattern finds the examples of docs/api.md: a name in a comment, and the JSON
// below it.
var pattern = regexp.MustCompile("(?s)<!-- example: ([a-z ]+) -->\n```json\n(.*?)\n```")

// The examples of docs/api.md are what a tracker was asked and answered.
func TestTheExamplesOfThePageAreTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, found := range pattern.FindAllSubmatch(page, -1) {
		shown[string(found[1])] = string(found[2])
	}
	made := examples(t)
	for name, want := range made {
		if shown[name] != want {
			t.Errorf("the example %q of docs/api.md must be\n%s", name, want)
		}
	}
	for name := range shown {
		if made[name] == "" {
			t.Errorf("docs/api.md has an example %q of nothing", name)
		}
	}
	for _, path := range []string{"POST " + api.ChallengePath, "POST " + api.RegisterPath, "POST " + api.RenewPath, "DELETE " + api.NodesPath + "/{node}", "GET " + api.NodesPath} {
		if !strings.Contains(string(page), "## `"+path) {
			t.Errorf("docs/api.md has no part on %s", path)
		}
	}
}

// examples has one exchange of each kind, with keys and challenges that are
// known.
func examples(t *testing.T) map[string]string {
	b := newBench(t, func(c *tracker.Config) {
		c.Random = bytes.NewReader(bytes.Repeat([]byte{0x5a}, 64))
		c.Now = func() time.Duration { return time.Hour }
	})
	all := map[string]string{}
	keep := func(name string, body []byte) {
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		all[name] = indented.String()
	}
	exchange := func(name, method, path string, ask any) []byte {
		var body []byte
		if ask != nil {
			var err error
			if body, err = admit.EncodeStrict(ask); err != nil {
				t.Fatal(err)
			}
			keep(name+" request", body)
		}
		got := b.ask(nodeOf(2), method, path, string(body)).body
		keep(name+" answer", got)
		return got
	}
	var c api.ChallengeAnswer
	if err := json.Unmarshal(exchange("challenge", http.MethodPost, api.ChallengePath, api.ChallengeRequest{Boot: id.BootID{2}}), &c); err != nil {
		t.Fatal(err)
	}
	s, f := admit.Sign(keyOf(2), reportOf(2, c.Challenge, 1))
	if f != nil {
		t.Fatal(f)
	}
	exchange("register", http.MethodPost, api.RegisterPath, s)
	exchange("renew", http.MethodPost, api.RenewPath, renewal(2, c.Challenge))
	exchange("nodes", http.MethodGet, api.NodesPath, nil)
	exchange("withdraw", http.MethodDelete, api.NodesPath+"/"+nodeOf(2).String()+"?lease="+c.Challenge.String(), nil)
	exchange("refused", http.MethodPost, api.RegisterPath, s)
	delete(all, "refused request") // the one of register again
	return all
}
