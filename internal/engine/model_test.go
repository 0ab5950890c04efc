package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/fault"
)

func TestModelTellsItsShape(t *testing.T) {
	m := openModel(t, stories)
	if m.Width() != 64 || m.Layers() != 5 || m.Vocabulary().Size() != 512 || m.Bytes() < 1e6 || m.ContextTrained() != 512 {
		t.Errorf("width %d, layers %d, vocabulary %d, bytes %d, context %d",
			m.Width(), m.Layers(), m.Vocabulary().Size(), m.Bytes(), m.ContextTrained())
	}
}

func TestModelsThatCannotBeLoaded(t *testing.T) {
	good, err := os.ReadFile(stories)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		says string
	}{
		{"empty", nil, "failed"},
		{"other", []byte("#!/bin/sh\nexit 0\n"), "magic"},
		{"cut in the header", good[:3000], "failed"},
		{"cut in the data", good[:len(good)-100000], "not within the file bounds"},
		{"architecture", bytes.Replace(good, []byte("\x05\x00\x00\x00\x00\x00\x00\x00llama"), []byte("\x05\x00\x00\x00\x00\x00\x00\x00lamma"), 1), "lamma"},
	} {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := library(t).OpenModel(path, ModelParams{})
		if f := wantFault(t, c.name, err, fault.StageLoadFailed); !strings.Contains(f.Attr("log"), c.says) {
			t.Errorf("%s: its words are %q, without %q", c.name, f.Attr("log"), c.says)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.gguf"), stories + "\x00", ""} {
		_, err := library(t).OpenModel(path, ModelParams{})
		wantFault(t, path, err, fault.GGUFFileMissing)
	}
}

func TestProgressRises(t *testing.T) {
	var seen []float32
	m, err := library(t).OpenModel(tale, ModelParams{Progress: func(done float32) { seen = append(seen, done) }})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if len(seen) < 2 || seen[len(seen)-1] != 1 {
		t.Fatalf("progress %v", seen)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] < seen[i-1] {
			t.Errorf("progress falls: %v", seen)
		}
	}
}

// Models, contexts and samplers may be closed in any order and twice.
func TestCloseInAnyOrder(t *testing.T) {
	m, err := library(t).OpenModel(stories, ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	a := openContext(t, m, ContextParams{Role: Whole})
	b := openContext(t, m, ContextParams{Role: Whole})
	m.Close()
	m.Close()
	all(t, whole{a}, run(0, 0, 3, false), []int32{1, 2, 3}) // the weights are still there
	a.Close()
	a.Close()
	all(t, whole{b}, run(0, 0, 3, false), []int32{1, 2, 3})
	b.Close()
	if m.handle != 0 {
		t.Error("the weights stay after the last context")
	}
	s := newSampler(t, 8, samplings["seeded"])
	s.Close()
	s.Close()
}

func TestVocabulary(t *testing.T) {
	v := openModel(t, stories).Vocabulary()
	ids, err := v.Tokenize("Once upon a time", true, false)
	if err != nil {
		t.Fatal(err)
	}
	pieces := v.Pieces()
	if len(pieces) != v.Size() || ids[0] != v.BOS() || v.BOS() != 1 || len(pieces[1]) != 0 {
		t.Errorf("%d pieces, ids %v, bos %d %q", len(pieces), ids, v.BOS(), pieces[1])
	}
	if got := text(pieces, ids); got != " Once upon a time" {
		t.Errorf("%q", got)
	}
	bare, err := v.Tokenize("Once upon a time", false, false)
	if err != nil || len(bare) != len(ids)-1 {
		t.Errorf("without specials %v, %v", bare, err)
	}
	if eog := v.EOG(); len(eog) != 1 || eog[0] != 2 {
		t.Errorf("eog %v", eog)
	}
	if !strings.Contains(v.Template(), "<|assistant|>") {
		t.Errorf("template %q", v.Template())
	}
}

func text(pieces [][]byte, ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, pieces[id]...)
	}
	return string(b)
}

func TestVocabularyTakesAnyBytes(t *testing.T) {
	for _, path := range []string{stories, tale} {
		v := openModel(t, path).Vocabulary()
		pieces := v.Pieces()
		for _, s := range []string{"", " ", "a\x00b", "\x00", "\xff\xfe", "\xe2\x82", "é漢🙂", strings.Repeat("wave ", 5000), strings.Repeat("\x00", 1000)} {
			ids, err := v.Tokenize(s, false, true)
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= v.Size() {
					t.Fatalf("%q: the token %d", s, id)
				}
			}
			if s == "é漢🙂" && !strings.HasSuffix(text(pieces, ids), s) {
				t.Errorf("%q came back as %q", s, text(pieces, ids))
			}
		}
	}
}

func TestVocabularyReadsControlTokensWhenAsked(t *testing.T) {
	v := openModel(t, tale).Vocabulary()
	if v.Template() == "" || len(v.EOG()) == 0 {
		t.Fatalf("template %q, eog %v", v.Template(), v.EOG())
	}
	const marked = "<|user|>"
	parsed, err1 := v.Tokenize(marked, false, true)
	literal, err2 := v.Tokenize(marked, false, false)
	if err1 != nil || err2 != nil || len(parsed) >= len(literal) {
		t.Errorf("parsed %v (%v), literal %v (%v)", parsed, err1, literal, err2)
	}
}

func TestVocabularyAlone(t *testing.T) {
	v, err := library(t).OpenVocabulary(tale)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	want, err := openModel(t, tale).Vocabulary().Tokenize("There lived a princess", true, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Tokenize("There lived a princess", true, true)
	if err != nil || text(v.Pieces(), got) != text(v.Pieces(), want) {
		t.Errorf("%v, %v", got, err)
	}
}

// A middle slice has no vocabulary; llama.cpp aborts when it is asked for a text.
func TestNoVocabulary(t *testing.T) {
	p := cut(t, tale, 2)
	_, err := library(t).OpenVocabulary(p.slices[0])
	wantFault(t, "open", err, fault.ModelVocabularyMissing)
	v := openModel(t, p.slices[0]).Vocabulary()
	_, err = v.Tokenize("a", true, true)
	wantFault(t, "tokenize", err, fault.ModelVocabularyMissing)
	if v.Pieces() != nil || v.EOG() != nil || v.BOS() != -1 || v.Template() != "" {
		t.Errorf("%d pieces, eog %v, bos %d, template %q", len(v.Pieces()), v.EOG(), v.BOS(), v.Template())
	}
	if last := openModel(t, p.slices[1]).Vocabulary(); last.Size() != 1280 || len(last.EOG()) == 0 {
		t.Errorf("the last slice has %d tokens, eog %v", last.Size(), last.EOG())
	}
}
