package gguf_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

const stories = "../../testdata/stories260K.gguf"

// every is one small model of each kind that is served.
var every = map[string]randmodel.Config{
	"llama":      {},
	"llama tied": {Tied: true, Type: "q8_0"},
	"llama f16":  {Type: "f16"},
	"llama q4_k": {Type: "q4_k", Layers: 2},
	"mixtral":    {Experts: 4, Type: "q4_0"},
	"qwen2":      {Architecture: "qwen2"},
	"qwen3":      {Architecture: "qwen3", Layers: 5},
	"qwen3moe":   {Architecture: "qwen3moe"},
	"gemma3":     {Architecture: "gemma3", Layers: 20},
}

func generate(t testing.TB, c randmodel.Config) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := randmodel.Generate(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(t testing.TB, b []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), "test.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func inspect(t testing.TB, f *gguf.File) *gguf.Model {
	t.Helper()
	m, err := gguf.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func manifest(t testing.TB, f *gguf.File) *gguf.Manifest {
	t.Helper()
	man, err := gguf.BuildManifest(context.Background(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return man
}

func bytesOf(t testing.TB, f *gguf.File, name string) []byte {
	t.Helper()
	tensor, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	b, err := io.ReadAll(f.Data(tensor))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func written(t testing.TB, p *gguf.SlicePlan, f *gguf.File, man *gguf.Manifest) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(context.Background(), &b, f, man, nil); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != p.Size {
		t.Fatalf("%d bytes written, %d planned", b.Len(), p.Size)
	}
	return b.Bytes()
}

func TestInspectTellsTheShape(t *testing.T) {
	f, err := gguf.Open(stories)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := inspect(t, f)
	want := gguf.Model{
		Architecture: "llama", Name: m.Name, Layers: 5, Width: 64, Vocabulary: 512, ContextTrained: 512, Heads: 8,
		KVHeads: 4, KeyLength: 8, ValueLength: 8, EmbeddingScale: 1, Tied: m.Tied, Tokenizer: true,
	}
	if got := m.Exported(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := m.KVBytes(5, 512, 2); got != 5*512*4*16*2 {
		t.Errorf("KV cache of %d bytes", got)
	}
	gemma := inspect(t, read(t, generate(t, every["gemma3"])))
	if gemma.EmbeddingScale != 8 || !gemma.Tied {
		t.Errorf("gemma3 of width 64: scale %v, tied %v", gemma.EmbeddingScale, gemma.Tied)
	}
	if moe := inspect(t, read(t, generate(t, every["mixtral"]))); moe.Experts != 4 || moe.ExpertsUsed != 2 {
		t.Errorf("mixtral: %d experts, %d used", moe.Experts, moe.ExpertsUsed)
	}
}

func TestOpenReadsWhatReadReads(t *testing.T) {
	b := generate(t, every["qwen3"])
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if a, b := manifest(t, f).Revision, manifest(t, read(t, b)).Revision; a != b {
		t.Errorf("revisions %s and %s", a, b)
	}
}
