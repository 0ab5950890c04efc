package preset

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/wire"
)

// buffer is a file in memory.
type buffer struct{ b []byte }

func (f *buffer) Write(b []byte) (int, error) {
	f.b = append(f.b, b...)
	return len(b), nil
}

func (f *buffer) WriteAt(b []byte, at int64) (int, error) { return copy(f.b[at:], b), nil }

const (
	width      = 4
	vocabulary = 7
)

func facts() Facts {
	return Facts{
		Revision: strings.Repeat("ab", 32), Width: width, Vocabulary: vocabulary, Borders: []int{0, 2, 4, 5}, Share: 1,
		Recipe:  wire.Recipe{Context: 16, Slots: 1, Chunk: 8, KVType: "f16", FlashAttention: "auto", Repack: true},
		Prompts: []probe.Prompt{{Name: probe.Short, Tokens: []int32{3, 1}}, {Name: probe.Long, Tokens: []int32{6, 0, 2}}},
	}
}

// end is what a prompt of n tokens is behind a part, told from all others by
// its numbers.
func end(part, prompt, n int) []float32 {
	rows := make([]float32, n)
	for i := range rows {
		rows[i] = float32(100*part + 50*prompt + i)
	}
	return rows
}

func ends(part int) [][]float32 {
	if part == 2 {
		return [][]float32{end(part, 0, vocabulary), end(part, 1, vocabulary)}
	}
	return [][]float32{end(part, 0, 2*width), end(part, 1, 3*width)}
}

func drift(part int) probe.Drift {
	d := probe.Difference{Cosine: 1 - 1e-5*float64(part+1), Relative: 0.02 * float64(part+1)}
	return probe.Drift{Local: d, Carried: d}
}

func sample(t testing.TB) []byte {
	t.Helper()
	f := new(buffer)
	w, err := NewProbeWriter(f, facts())
	for part := 0; part < 3 && err == nil; part++ {
		err = w.Part(ends(part), drift(part))
	}
	if err == nil {
		err = w.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.b
}

func read(b []byte) (*Probe, error) { return ReadProbe(bytes.NewReader(b), int64(len(b)), "probe.bin") }

func TestAReferenceIsWhatWasMeasuredAtItsBorders(t *testing.T) {
	p, err := read(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ begin, end int }{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}} {
		layers := [2]int{p.Borders[c.begin], p.Borders[c.end]}
		r, err := p.Reference(layers)
		if err != nil {
			t.Fatal(err)
		}
		if r.Revision != p.Revision || r.Layers != layers || r.Width != width || r.Vocabulary != vocabulary || len(r.Passages) != 2 {
			t.Fatalf("layers %v: %+v", layers, r)
		}
		for i, g := range r.Passages {
			var in, out, logits []float32
			if c.begin > 0 {
				in = ends(c.begin - 1)[i]
			}
			if c.end < 3 {
				out = ends(c.end - 1)[i]
			} else {
				logits = ends(2)[i]
			}
			if !slices.Equal(g.In, in) || !slices.Equal(g.Out, out) || !slices.Equal(g.Logits, logits) || !slices.Equal(g.Prompt.Tokens, p.Prompts[i].Tokens) {
				t.Errorf("layers %v, prompt %d: %+v", layers, i, g)
			}
		}
		if want := probe.Tolerate(p.Drifts[:c.end], c.begin, 1, c.end == 3); r.Tolerance != want {
			t.Errorf("layers %v tolerate %+v, want %+v", layers, r.Tolerance, want)
		}
	}
	for _, layers := range [][2]int{{0, 3}, {1, 4}, {2, 2}, {4, 2}, {-1, 2}, {4, 6}, {5, 5}} {
		if _, err := p.Reference(layers); !errors.Is(err, fault.PresetLayersUnmeasured) {
			t.Errorf("layers %v: %v", layers, err)
		}
	}
}

// Whatever byte is changed and wherever it is cut, a probe is refused.
func TestAChangedProbeIsRefused(t *testing.T) {
	good := sample(t)
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		if _, err := read(bad); !errors.Is(err, fault.PresetFileCorrupt) && !errors.Is(err, fault.PresetFormatUnknown) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	for n := range good {
		if _, err := read(good[:n]); !errors.Is(err, fault.PresetFileCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := read(append(good, 0)); !errors.Is(err, fault.PresetFileCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
	newer := slices.Clone(good)
	binary.LittleEndian.PutUint32(newer[8:], probeVersion+1)
	if _, err := read(newer); !errors.Is(err, fault.PresetFormatUnknown) || fault.From(err).Attr("version") != "2" {
		t.Errorf("a newer version: %v", err)
	}
}

// Facts that cannot be are refused, also where the digest is right.
func TestFactsThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no width":          func(m map[string]any) { m["width"] = 0 },
		"a vast width":      func(m map[string]any) { m["width"] = 1 << 40 },
		"no vocabulary":     func(m map[string]any) { m["vocabulary"] = -1 },
		"one border":        func(m map[string]any) { m["borders"] = []int{0} },
		"borders that fall": func(m map[string]any) { m["borders"] = []int{0, 4, 2, 5} },
		"borders from 1":    func(m map[string]any) { m["borders"] = []int{1, 2, 4, 5} },
		"a drift too few":   func(m map[string]any) { m["drifts"] = []any{} },
		"a negative drift": func(m map[string]any) {
			m["drifts"].([]any)[0].(map[string]any)["local"] = probe.Difference{Relative: -1}
		},
		"a cosine above 1": func(m map[string]any) {
			m["drifts"].([]any)[0].(map[string]any)["carried"] = probe.Difference{Cosine: 2}
		},
		"one prompt":           func(m map[string]any) { m["prompts"] = m["prompts"].([]any)[:1] },
		"a token too large":    func(m map[string]any) { m["prompts"].([]any)[0].(map[string]any)["tokens"] = []int{7, 1} },
		"an empty prompt":      func(m map[string]any) { m["prompts"].([]any)[1].(map[string]any)["tokens"] = []int{} },
		"a longer prompt":      func(m map[string]any) { m["prompts"].([]any)[1].(map[string]any)["tokens"] = []int{1, 2, 3, 4} },
		"no share":             func(m map[string]any) { m["share"] = 0 },
		"a share above 1":      func(m map[string]any) { m["share"] = 1.5 },
		"something unheard of": func(m map[string]any) { m["extra"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(withDrifts())
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			body := bodyOf(sample(t), text)
			if _, err := read(sealed(body, text)); err != nil {
				t.Fatalf("unchanged: %v", err)
			}
			change(m)
			if text, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			if _, err := read(sealed(body, text)); !errors.Is(err, fault.PresetFileCorrupt) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func withDrifts() Facts {
	f := facts()
	f.Drifts = []probe.Drift{drift(0), drift(1), drift(2)}
	return f
}

// bodyOf is what stands between the header and the facts of a probe.
func bodyOf(whole, text []byte) []byte { return whole[headSize : len(whole)-len(text)] }

// sealed is a file with a right digest over whatever it is.
func sealed(body, text []byte) []byte {
	f := new(buffer)
	w, _ := NewProbeWriter(f, Facts{})
	_, _ = w.out.Write(body)
	_ = w.seal(text)
	return f.b
}

// Parts that do not fit are refused before a file is made of them.
func TestAWriterTakesOnlyWhatBelongsThere(t *testing.T) {
	w, err := NewProbeWriter(new(buffer), facts())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err == nil {
		t.Error("a probe without parts was finished")
	}
	if err := w.Part(ends(2), drift(0)); err == nil {
		t.Error("logits were taken for rows")
	}
}

// FuzzReadProbe: whatever stands behind a right digest gives a probe whose
// ranges can all be asked for, or a fault of the catalogue.
func FuzzReadProbe(f *testing.F) {
	whole := sample(f)
	text, err := json.Marshal(withDrifts())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bodyOf(whole, text), text)
	f.Add([]byte{}, []byte("{}"))
	f.Fuzz(func(t *testing.T, body, text []byte) {
		p, err := read(sealed(body, text))
		if err != nil {
			wantFault(t, err)
			return
		}
		for i, start := range p.Borders[:min(len(p.Borders), 8)] {
			for _, end := range p.Borders[i+1 : min(len(p.Borders), 8)] {
				if _, err := p.Reference([2]int{start, end}); err != nil {
					wantFault(t, err)
				}
			}
		}
	})
}

// FuzzReadProbeBytes: arbitrary bytes are refused by a fault.
func FuzzReadProbeBytes(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := read(b); err != nil {
			wantFault(t, err)
		}
	})
}

func wantFault(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.PresetFileCorrupt) && !errors.Is(err, fault.PresetFormatUnknown) {
		t.Fatalf("no fault of a preset: %v", err)
	}
}

// FuzzParsePreset: arbitrary text is a preset that can be shown, or an error.
func FuzzParsePreset(f *testing.F) {
	p := Preset{
		Version: formatVersion, Name: "tiny", Revision: facts().Revision, Files: []string{"/m.gguf"}, Recipe: facts().Recipe,
		Model: Shape{Layers: 5, Width: width}, Tokenizer: Tokenizer{Tokens: vocabulary},
	}
	text, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePreset(text, "tiny")
		if err == nil && (p.Name != "tiny" || len(p.Revision) != 64 || len(p.Files) == 0 || p.Recipe.Chunk > p.Recipe.Context) {
			t.Errorf("%s was read as %+v", text, p)
		}
	})
}
