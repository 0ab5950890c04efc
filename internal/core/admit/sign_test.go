package admit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire"
)

// vector is a report whose bytes and signature are known. Where one changes,
// nodes of two builds no longer understand one another: then Schema and the
// word of the form have to change as well.
type vector struct {
	Name      string          `json:"name"`
	Seed      byte            `json:"seed"` // each byte of the key's seed
	Signed    json.RawMessage `json:"signed"`
	Canonical string          `json:"canonical"` // hex
}

func TestReportsHaveTheirKnownBytes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "reports.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	made := map[string]Report{"first stage": report(1, first), "middle stage": report(2, middle), "last stage": report(3, last), "offer": offer(4)}
	if len(vectors) != len(made) {
		t.Fatalf("there are %d vectors for %d reports", len(vectors), len(made))
	}
	for _, v := range vectors {
		r, ok := made[v.Name]
		if !ok {
			t.Errorf("no report is made for %q", v.Name)
			continue
		}
		if got := hex.EncodeToString(r.canonical()); got != v.Canonical {
			t.Errorf("%s: the canonical bytes are\n%s, want\n%s", v.Name, got, v.Canonical)
		}
		known, f := ParseSigned(v.Signed)
		if f != nil {
			t.Errorf("%s: %v", v.Name, f)
			continue
		}
		if _, f := Verify(known); f != nil {
			t.Errorf("%s: %v", v.Name, f)
		}
		if now := sign(t, v.Seed, r); !reflect.DeepEqual(now, known) {
			t.Errorf("%s is signed as %+v, want %+v", v.Name, now, known)
		}
	}
}

// offer is a sound report without plan and reference.
func offer(n byte) Report {
	r := report(n, middle)
	r.Purpose, r.Run, r.Attempt, r.Referenced = ForOffer, id.RunID{}, 0, false
	r.Checks = slices.DeleteFunc(r.Checks, func(c probe.Check) bool { return c.Name == probe.Cosine || c.Name == probe.Relative })
	return r
}

func TestRecipesAndBackendsHaveTheirKnownDigests(t *testing.T) {
	for got, want := range map[Digest]string{
		RecipeDigest(recipe()): "52793dab417d2f737255abc35198668cc2cc010b216011052021a59dd9a4d344",
		backend().Digest():     "a2d3c2c89cd5fc9cd2cf14d36f1345930dc6dbda1efe88eb2f80d8a9798271cf",
	} {
		if got.String() != want {
			t.Errorf("a digest is %s, want %s", got, want)
		}
	}
}

func recipe() wire.Recipe {
	return wire.Recipe{Context: 4096, Slots: 4, Chunk: 512, Threads: 3, KVType: "f16", FlashAttention: "auto", Repack: true, GPULayers: 2}
}

func backend() Backend {
	return Backend{
		Engine:    "b1234",
		Libraries: []Library{{"libggml.so", digestOf(2)}, {"libllama.so", digestOf(1)}},
		Device:    Device{"gpu", "CUDA0", "a card"},
		Driver:    "driver 1.2",
	}
}

// A field that is new to a recipe or a backend and is left out of its digest
// fails here.
func TestEachFieldMovesTheDigest(t *testing.T) {
	moved := map[Digest]string{}
	see := func(what string, d Digest) {
		if other, twice := moved[d]; twice {
			t.Errorf("%s and %s have one digest", what, other)
		}
		moved[d] = what
	}
	see("the recipe", RecipeDigest(recipe()))
	see("the backend", backend().Digest())
	r := recipe()
	eachLeaf(reflect.ValueOf(&r).Elem(), func(path string) { see("another "+path+" of the recipe", RecipeDigest(r)) })
	b := backend()
	eachLeaf(reflect.ValueOf(&b).Elem(), func(path string) { see("another "+path+" of the backend", b.Digest()) })
	b.Libraries = b.Libraries[:1]
	see("a backend with a library less", b.Digest())
}

// eachLeaf changes one leaf of v after another, and calls f while it is so.
func eachLeaf(v reflect.Value, f func(path string)) { eachLeafBelow(v, "", f) }

func eachLeafBelow(v reflect.Value, path string, f func(string)) {
	kept := reflect.ValueOf(v.Interface())
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachLeafBelow(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			eachLeafBelow(v.Index(i), path+"[]", f)
		}
		return
	case reflect.Array:
		eachLeafBelow(v.Index(0), path, f)
		return
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() ^ 0x80)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		panic("a kind of field that this test does not know: " + v.Kind().String())
	}
	f(path)
	v.Set(kept)
}

func TestTheOrderOfLibrariesDoesNotCount(t *testing.T) {
	turned := backend()
	slices.Reverse(turned.Libraries)
	if turned.Digest() != backend().Digest() {
		t.Error("the order of the libraries counts")
	}
	if turned.Libraries[0].Name != "libllama.so" {
		t.Error("the caller's list was sorted")
	}
}

func TestOneSpellingOfASignedReportIsRead(t *testing.T) {
	good, err := EncodeStrict(sign(t, 1, report(1, last)))
	if err != nil {
		t.Fatal(err)
	}
	if _, f := ParseSigned(good); f != nil {
		t.Fatal(f)
	}
	if _, f := ParseSigned(append(append([]byte(" \n"), bytes.ReplaceAll(good, []byte(","), []byte(" ,\t"))...), '\n')); f != nil {
		t.Errorf("white space was refused: %v", f)
	}
	edit := func(old, now string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%s has no %s", good, old)
		}
		return bytes.Replace(good, []byte(old), []byte(now), 1)
	}
	for name, b := range map[string][]byte{
		"nothing":                     nil,
		"white space":                 []byte("  "),
		"null":                        []byte("null"),
		"an empty object":             []byte("{}"),
		"a list":                      []byte("[]"),
		"half":                        good[:len(good)/2],
		"a trailing object":           append(slices.Clone(good), "{}"...),
		"a trailing brace":            append(slices.Clone(good), '}'),
		"trailing garbage":            append(slices.Clone(good), '\x00'),
		"an unknown field":            edit(`"schema":1`, `"mood":1,"schema":1`),
		"an unknown field of a check": edit(`"passed":true`, `"passed":true,"sure":true`),
		"a missing field":             edit(`"epoch":3,`, ``),
		"a missing zero":              edit(`"got":0,`, ``),
		"a repeated field":            edit(`"epoch":3`, `"epoch":3,"epoch":3`),
		"a repeated field that says another thing": edit(`"epoch":3`, `"epoch":4,"epoch":3`),
		"a field in other letters":                 edit(`"epoch"`, `"Epoch"`),
		"another order":                            edit(`"pool":"home","epoch":3`, `"epoch":3,"pool":"home"`),
		"a number with a fraction":                 edit(`"epoch":3`, `"epoch":3.0`),
		"a number as a text":                       edit(`"epoch":3`, `"epoch":"3"`),
		"a number that is too large":               edit(`"epoch":3`, `"epoch":18446744073709551616`),
		"a null":                                   edit(`"epoch":3`, `"epoch":null`),
		"a not a number":                           edit(`"got":0.9999`, `"got":NaN`),
		"an infinite figure":                       edit(`"got":0.9999`, `"got":1e999`),
		"a third layer":                            edit(`"layers":[6,8]`, `"layers":[6,8,9]`),
		"one layer alone":                          edit(`"layers":[6,8]`, `"layers":[6]`),
		"an escape for a letter":                   edit(`"home"`, `"\u0068ome"`),
		"upper-case digits":                        edit(strings.Repeat("0a", 32), strings.Repeat("0A", 32)),
		"a short digest":                           edit(strings.Repeat("0a", 32), strings.Repeat("0a", 31)),
		"a short signature":                        edit(`"signature":"`, `"signature":"0`),
		"too many bytes":                           append(slices.Clone(good), bytes.Repeat([]byte(" "), MostBytes)...),
	} {
		if s, f := ParseSigned(b); f == nil || f.Code != fault.AdmitReportUnreadable {
			t.Errorf("%s: %v", name, f)
		} else if !reflect.DeepEqual(s, Signed{}) {
			t.Errorf("%s: a report came with the refusal", name)
		} else if len(f.Error()) > 400 {
			t.Errorf("%s: the refusal has %d characters", name, len(f.Error()))
		}
	}
}

func TestWhatNoReportCanSayIsNeitherSignedNorRead(t *testing.T) {
	for name, change := range map[string]func(*Report){
		"no purpose":                func(r *Report) { r.Purpose = "" },
		"another purpose":           func(r *Report) { r.Purpose = "test" },
		"a stage without a run":     func(r *Report) { r.Run = id.RunID{} },
		"a stage without attempt":   func(r *Report) { r.Attempt = 0 },
		"an offer with a run":       func(r *Report) { r.Purpose, r.Attempt = ForOffer, 0 },
		"an offer with an attempt":  func(r *Report) { r.Purpose, r.Run = ForOffer, id.RunID{} },
		"no pool":                   func(r *Report) { r.Pool = "" },
		"a long pool":               func(r *Report) { r.Pool = strings.Repeat("p", 65) },
		"a pool that is no UTF-8":   func(r *Report) { r.Pool = "\xff" },
		"no epoch":                  func(r *Report) { r.Epoch = 0 },
		"no orchestrator":           func(r *Report) { r.Orchestrator = id.NodeID{} },
		"no node":                   func(r *Report) { r.Node = id.NodeID{} },
		"no boot":                   func(r *Report) { r.Boot = id.BootID{} },
		"no sequence":               func(r *Report) { r.Sequence = 0 },
		"no challenge":              func(r *Report) { r.Challenge = Challenge{} },
		"no revision":               func(r *Report) { r.Revision = Digest{} },
		"no layers":                 func(r *Report) { r.Layers = [2]int{3, 3} },
		"layers below zero":         func(r *Report) { r.Layers = [2]int{-1, 3} },
		"layers beyond the model":   func(r *Report) { r.Layers = [2]int{3, 9} },
		"a model of all the layers": func(r *Report) { r.Depth = mostLayers + 1 },
		"no slice":                  func(r *Report) { r.Slice = Digest{} },
		"an embedding in between":   func(r *Report) { r.Embedding = digestOf(1) },
		"no recipe":                 func(r *Report) { r.Recipe = Digest{} },
		"no backend":                func(r *Report) { r.Backend = Digest{} },
		"a check without a name":    func(r *Report) { r.Checks[0].Name = "" },
		"a check with a long name":  func(r *Report) { r.Checks[0].Name = strings.Repeat("c", 65) },
		"a figure that is none":     func(r *Report) { r.Checks[0].Got = math.NaN() },
		"an infinite limit":         func(r *Report) { r.Checks[0].Limit = math.Inf(1) },
		"many checks":               func(r *Report) { r.Checks = slices.Repeat(r.Checks, 10) },
		"context below zero":        func(r *Report) { r.Capacity.Context = -1 },
		"a speed below zero":        func(r *Report) { r.Speed.TokenMicros = -1 },
		"slots beyond count":        func(r *Report) { r.Capacity.Slots = math.MaxInt },
	} {
		r := report(1, middle)
		change(&r)
		if _, f := Sign(keyOf(1), r); f == nil || f.Code != fault.AdmitReportInvalid || f.Attr("field") == "" {
			t.Errorf("%s: signed, or refused by %v", name, f)
		}
		if _, f := Verify(Signed{Report: r}); f == nil || f.Code != fault.AdmitReportInvalid {
			t.Errorf("%s: verified, or refused by %v", name, f)
		}
	}
	if _, f := Sign(keyOf(2), report(1, middle)); f == nil || f.Code != fault.AdmitNodeMismatched {
		t.Errorf("a report was signed by another node: %v", f)
	}
	r := report(1, first)
	r.Embedding = Digest{}
	if _, f := Sign(keyOf(1), r); f == nil || f.Attr("field") != "embedding" {
		t.Errorf("a first stage without embedding: %v", f)
	}
}

func TestAReportSurvivesItsWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes32 := func(name string) (b [32]byte) {
			copy(b[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
			b[0] |= 1
			return b
		}
		r := report(1, rapid.SampledFrom([][2]int{first, middle, last}).Draw(t, "layers"))
		if rapid.Bool().Draw(t, "offered") {
			r = offer(1)
		}
		r.Pool = rapid.StringN(1, 16, 64).Draw(t, "pool")
		r.Epoch = rapid.Uint64Min(1).Draw(t, "epoch")
		r.Sequence = rapid.Uint64Min(1).Draw(t, "sequence")
		r.Challenge, r.Revision, r.Backend = bytes32("challenge"), bytes32("revision"), bytes32("backend")
		r.Checks = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) probe.Check {
			return probe.Check{
				Name: rapid.SampledFrom(probe.Names()).Draw(t, "name"), Passed: rapid.Bool().Draw(t, "passed"),
				Got: rapid.Float64().Draw(t, "got"), Limit: rapid.Float64().Draw(t, "limit"),
			}
		}), 0, mostChecks).Draw(t, "checks")
		r.Capacity.ResidentBytes = rapid.Uint64().Draw(t, "resident")
		r.Speed.TokenMicros = rapid.Int64Range(0, mostCount).Draw(t, "micros")
		r.Age = time.Duration(rapid.Int64().Draw(t, "age"))
		sent, f := Sign(keyOf(1), r)
		if f != nil {
			t.Fatal(f)
		}
		b, err := EncodeStrict(sent)
		if err != nil {
			t.Fatal(err)
		}
		got, f := ParseSigned(b)
		if f != nil {
			t.Fatalf("%s: %v", b, f)
		}
		if !bytes.Equal(got.Report.canonical(), r.canonical()) {
			t.Fatalf("%+v became %+v", r, got.Report)
		}
		if _, f := Verify(got); f != nil {
			t.Fatal(f)
		}
	})
}

func FuzzParseSigned(f *testing.F) {
	for _, layers := range [][2]int{first, middle, last} {
		b, err := EncodeStrict(sign(f, 1, report(1, layers)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"report":{"schema":1},"signature":""}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, refused := ParseSigned(b)
		if refused != nil {
			if refused.Code != fault.AdmitReportUnreadable {
				t.Errorf("refused by %v", refused)
			}
			return
		}
		again, err := EncodeStrict(s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, b); err != nil || !bytes.Equal(compact.Bytes(), again) {
			t.Errorf("%s was read, its spelling is %s", b, again)
		}
		r, refused := Verify(s)
		if refused == nil && (Config{}).filled().judge(&r, Want{}, soon) == nil {
			t.Error("a report was accepted where none is wanted")
		}
	})
}
