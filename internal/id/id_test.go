package id_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"muster/internal/id"
)

func nodeID(t *testing.T) id.NodeID {
	t.Helper()
	key, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.NodeIDOf(key)
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The test vector fixes the text form: a key file or a pool definition written
// by one build is read by every later one.
func TestNodeIDHasItsKnownText(t *testing.T) {
	seed := bytes.Repeat([]byte{1}, ed25519.SeedSize)
	n := id.NodeIDOf(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	const want = "rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oa"
	if n.String() != want {
		t.Fatalf("the text is %s, want %s", n, want)
	}
	if n.Short() != want[:8] {
		t.Fatalf("the short form is %s", n.Short())
	}
	if !bytes.Equal(n.Key(), ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)) {
		t.Fatal("the id does not give its key back")
	}
}

func TestNodeIDRefusesEveryOtherSpelling(t *testing.T) {
	good := nodeID(t).String()
	last := strings.IndexByte("abcdefghijklmnopqrstuvwxyz234567", good[51])
	other := string("abcdefghijklmnopqrstuvwxyz234567"[last|1])
	for name, text := range map[string]string{
		"empty":          "",
		"none":           "none",
		"short":          good[:51],
		"long":           good + "a",
		"upper case":     strings.ToUpper(good),
		"digit 0":        "0" + good[1:],
		"digit 1":        "1" + good[1:],
		"digit 8":        "8" + good[1:],
		"space":          " " + good[1:],
		"line break":     good[:51] + "\n",
		"padding":        good[:51] + "=",
		"trailing bits":  good[:51] + other,
		"not ASCII":      "é" + good[2:],
		"all zero":       strings.Repeat("a", 52),
		"many megabytes": strings.Repeat(good, 10_000),
	} {
		n, err := id.ParseNodeID(text)
		var refusal *id.ParseError
		if !errors.As(err, &refusal) || refusal.Kind != "node id" || refusal.Why == "" {
			t.Errorf("%s: %v", name, err)
		}
		if !n.IsZero() {
			t.Errorf("%s: an id came with the refusal", name)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: the refusal has %d characters", name, len(err.Error()))
		}
	}
}

func TestNodeIDOfAWrongKeyIsNone(t *testing.T) {
	for _, key := range []ed25519.PublicKey{nil, make([]byte, 31), make([]byte, 33)} {
		if !id.NodeIDOf(key).IsZero() {
			t.Errorf("a key of %d bytes gave an id", len(key))
		}
	}
}

func TestNodeIDsHaveOneOrder(t *testing.T) {
	for range 50 {
		a, b := nodeID(t), nodeID(t)
		if a.Compare(b) != -b.Compare(a) || a.Compare(b) == 0 {
			t.Fatal("the order contradicts itself")
		}
	}
}

type text interface {
	encoding.TextMarshaler
	String() string
	IsZero() bool
}

func TestEveryIDSurvivesJSONAndNoneIsEmpty(t *testing.T) {
	type all struct {
		Node  id.NodeID `json:"node"`
		Boot  id.BootID `json:"boot"`
		Run   id.RunID  `json:"run"`
		Edge  id.EdgeID `json:"edge"`
		Nonce id.Nonce  `json:"nonce"`
	}
	sent := all{
		nodeID(t), must[id.BootID](t)(id.NewBootID(rand.Reader)), must[id.RunID](t)(id.NewRunID(rand.Reader)),
		must[id.EdgeID](t)(id.NewEdgeID(rand.Reader)), must[id.Nonce](t)(id.NewNonce(rand.Reader)),
	}
	for _, want := range []all{sent, {}} {
		line := must[[]byte](t)(json.Marshal(want))
		got := sent
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got != want {
			t.Fatalf("%s became %+v", line, got)
		}
	}
	line := must[[]byte](t)(json.Marshal(all{}))
	if string(line) != `{"node":"","boot":"","run":"","edge":"","nonce":""}` {
		t.Fatalf("none is written %s", line)
	}
	for _, v := range []text{id.NodeID{}, id.BootID{}, id.RunID{}, id.EdgeID{}, id.Nonce(0)} {
		if !v.IsZero() || v.String() != "none" {
			t.Errorf("%T: the zero value says %q", v, v)
		}
	}
	for _, v := range []text{sent.Node, sent.Boot, sent.Run, sent.Edge, sent.Nonce} {
		if v.IsZero() {
			t.Errorf("%T: a made id says it is none", v)
		}
	}
}

func TestOtherIDsRefuseEveryOtherSpelling(t *testing.T) {
	boot := must[id.BootID](t)(id.NewBootID(rand.Reader)).String()
	run := must[id.RunID](t)(id.NewRunID(rand.Reader)).String()
	for _, text := range []string{
		"", "none", boot[:31], boot + "0", strings.ToUpper(boot[:31]) + "A", "g" + boot[1:], strings.Repeat("0", 32),
	} {
		if b, err := id.ParseBootID(text); err == nil || !b.IsZero() {
			t.Errorf("%q was read as the boot id %s", text, b)
		}
	}
	for _, text := range []string{
		"", "none", strings.ToUpper(run), "{" + run + "}", "urn:uuid:" + run, strings.ReplaceAll(run, "-", ""),
		run[:14] + "4" + run[15:], run[:19] + "0" + run[20:], "00000000-0000-0000-0000-000000000000",
	} {
		if r, err := id.ParseRunID(text); err == nil || !r.IsZero() {
			t.Errorf("%q was read as the run id %s", text, r)
		}
		if e, err := id.ParseEdgeID(text); err == nil || !e.IsZero() {
			t.Errorf("%q was read as the edge id %s", text, e)
		}
	}
	for _, text := range []string{"", "1", strings.Repeat("0", 16), "00000000000000FF", "+000000000000001"} {
		if n, err := id.ParseNonce(text); err == nil || !n.IsZero() {
			t.Errorf("%q was read as the nonce %s", text, n)
		}
	}
}

func TestRunIDsSortByWhenTheyWereMade(t *testing.T) {
	var made []string
	for range 1000 {
		made = append(made, must[id.RunID](t)(id.NewRunID(rand.Reader)).String())
	}
	if !slices.IsSorted(made) {
		t.Fatal("a later run id sorts before an earlier one")
	}
	if shorts := slices.CompactFunc(made, func(a, b string) bool { return a[28:] == b[28:] }); len(shorts) < 999 {
		t.Fatal("short forms of neighbours are alike")
	}
}

// A source of randomness that fails gives no id, and one that begins with
// zeroes does not give none.
func TestRandomnessIsWhatTheCallerGives(t *testing.T) {
	if _, err := id.NewBootID(strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a boot id: %v", err)
	}
	if _, err := id.NewNonce(strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("no nonce: %v", err)
	}
	if _, err := id.NewRunID(strings.NewReader("short")); err == nil {
		t.Error("half a run id was made")
	}
	if _, err := id.NewEdgeID(strings.NewReader("short")); err == nil {
		t.Error("half an edge id was made")
	}
	zeroes := append(make([]byte, 16), bytes.Repeat([]byte{7}, 16)...)
	if b, err := id.NewBootID(bytes.NewReader(zeroes)); err != nil || b.String() != strings.Repeat("07", 16) {
		t.Errorf("after zeroes: %s, %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oa")
	f.Add("00112233445566778899aabbccddeeff")
	f.Add("0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b")
	f.Add("0123456789abcdef")
	f.Fuzz(func(t *testing.T, s string) {
		same := func(v text, err error) {
			if err != nil {
				if !v.IsZero() {
					t.Errorf("%T of %q came with %v", v, s, err)
				}
				return
			}
			if v.String() != s || v.IsZero() {
				t.Errorf("%q was read as %T %q", s, v, v)
			}
		}
		n, err := id.ParseNodeID(s)
		same(n, err)
		b, err := id.ParseBootID(s)
		same(b, err)
		r, err := id.ParseRunID(s)
		same(r, err)
		e, err := id.ParseEdgeID(s)
		same(e, err)
		c, err := id.ParseNonce(s)
		same(c, err)
	})
}
