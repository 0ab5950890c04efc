package randmodel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
)

func generated(t *testing.T, c Config) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Generate(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestEveryKindIsServed: each architecture in each type passes inspection and
// holds a vocabulary of the size asked for.
func TestEveryKindIsServed(t *testing.T) {
	for _, architecture := range gguf.Architectures() {
		for _, typ := range Types() {
			for _, experts := range []int{0, 4} {
				if experts > 0 && architecture != "llama" {
					continue
				}
				b := generated(t, Config{Architecture: architecture, Type: typ, Experts: experts, Vocabulary: 300})
				f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), "random")
				if err != nil {
					t.Fatal(err)
				}
				m, err := gguf.Inspect(f)
				if err != nil {
					t.Fatalf("%s %s: %v", architecture, typ, err)
				}
				if !m.Tokenizer || m.Vocabulary != 300 {
					t.Errorf("%s %s: tokenizer %v, %d tokens", architecture, typ, m.Tokenizer, m.Vocabulary)
				}
			}
		}
	}
}

func TestSameConfigurationSameBytes(t *testing.T) {
	base := generated(t, Config{Seed: 3})
	if !bytes.Equal(base, generated(t, Config{Seed: 3})) {
		t.Error("two models of one configuration differ")
	}
	if bytes.Equal(base, generated(t, Config{Seed: 4})) {
		t.Error("the seed changes nothing")
	}
}

// TestBytesHaveTheirToken: the 256 byte tokens are distinct, as a vocabulary
// demands, and printable bytes stand for themselves.
func TestBytesHaveTheirToken(t *testing.T) {
	seen := map[rune]bool{}
	for b := range 256 {
		r := letter(byte(b))
		if seen[r] {
			t.Errorf("%q stands for two bytes", r)
		}
		seen[r] = true
	}
	if letter('a') != 'a' || letter(' ') != 'Ġ' || letter('\n') != 'Ċ' {
		t.Errorf("%q %q %q", letter('a'), letter(' '), letter('\n'))
	}
	if n := 256 + len(merges) + 1; n != LeastVocabulary {
		t.Errorf("%d tokens are always there, LeastVocabulary says %d", n, LeastVocabulary)
	}
}

// TestHalves compares with the definition of the format, for every number it
// has up to 2.
func TestHalves(t *testing.T) {
	for h := range uint16(0x4000) {
		want := math.Ldexp(1+float64(h&0x3ff)/1024, int(h>>10)-15)
		if h>>10 == 0 {
			want = math.Ldexp(float64(h&0x3ff)/1024, -14)
		}
		if got := half(want); got != h {
			t.Fatalf("%g is %#04x, want %#04x", want, got, h)
		}
		if got := half(-want); got != h|0x8000 && want != 0 {
			t.Fatalf("-%g is %#04x", want, got)
		}
	}
}

// TestQuantisedWeightsHaveTheirScale reads Q8_0 blocks back.
func TestQuantisedWeightsHaveTheirScale(t *testing.T) {
	b := make([]byte, 34*400)
	newSource(1, "x").row(b, gguf.Q8_0, spread{0, 0.5})
	var sum, squares float64
	n := 0.0
	for ; len(b) > 0; b = b[34:] {
		h := binary.LittleEndian.Uint16(b)
		scale := math.Ldexp(1+float64(h&0x3ff)/1024, int(h>>10)-15)
		for _, q := range b[2:34] {
			v := scale * float64(int8(q))
			sum, squares, n = sum+v, squares+v*v, n+1
		}
	}
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.02 || math.Abs(deviation-0.5) > 0.02 {
		t.Errorf("mean %.3f, deviation %.3f", mean, deviation)
	}
}

func TestImpossibleConfigurations(t *testing.T) {
	for name, c := range map[string]Config{
		"architecture": {Architecture: "bert"},
		"type":         {Type: "q3_k"},
		"layers":       {Layers: -1},
		"width":        {Type: "q8_0", Width: 48},
		"blocks":       {Type: "q4_k", Width: 64},
		"heads":        {Heads: 4, KVHeads: 3},
		"no heads":     {Heads: -4},
		"odd head":     {HeadDim: 7},
		"vocabulary":   {Vocabulary: 100},
		"one expert":   {Experts: 1},
		"experts":      {Architecture: "qwen2", Experts: 4},
	} {
		if err := Generate(&bytes.Buffer{}, c); !errors.Is(err, fault.RecipeInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRefusedModelLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := GenerateFile(path, Config{Vocabulary: 1}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

func TestPreset(t *testing.T) {
	if c, ok := Preset("250m"); !ok || c.filled().check() != nil {
		t.Errorf("%v, %v", ok, c.filled().check())
	}
	if _, ok := Preset("none"); ok {
		t.Error("a preset that is not there")
	}
}
