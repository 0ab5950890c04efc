package gguf_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

// TestSlicesHoldTheModel cuts one model of each kind into 1, 2 and 3 stages and
// compares every tensor with the model's.
func TestSlicesHoldTheModel(t *testing.T) {
	for name, c := range every {
		for workers := 1; workers <= 3; workers++ {
			if name == "llama q4_k" && workers == 3 {
				continue // two layers
			}
			t.Run(fmt.Sprintf("%s in %d", name, workers), func(t *testing.T) {
				f := read(t, generate(t, c))
				m, man := inspect(t, f), manifest(t, f)
				ranges, err := gguf.EvenSplit(m, workers)
				if err != nil {
					t.Fatal(err)
				}
				layers := 0
				for _, r := range ranges {
					p, err := gguf.PlanSlice(f, m, r)
					if err != nil {
						t.Fatal(err)
					}
					if p.First != (r.Start == 0) || p.Last != (r.End == m.Layers) {
						t.Errorf("%v: first %v, last %v", r, p.First, p.Last)
					}
					checkSlice(t, f, m, read(t, written(t, p, f, man)), r)
					layers += r.Layers()
				}
				if layers != m.Layers {
					t.Errorf("the slices hold %d layers of %d", layers, m.Layers)
				}
			})
		}
	}
}

func checkSlice(t *testing.T, f *gguf.File, m *gguf.Model, s *gguf.File, r gguf.Range) {
	t.Helper()
	last := r.End == m.Layers
	if n, _ := s.Uint(m.Architecture + ".block_count"); int(n) != r.Layers() {
		t.Errorf("%v: block_count is %d", r, n)
	}
	layers := 0
	for _, tensor := range f.Tensors {
		rest, ok := strings.CutPrefix(tensor.Name, "blk.")
		if !ok {
			continue
		}
		var layer int
		var kind string
		if _, err := fmt.Sscanf(rest, "%d.%s", &layer, &kind); err != nil {
			t.Fatal(err)
		}
		if layer < r.Start || layer >= r.End {
			continue
		}
		layers++
		if !bytes.Equal(bytesOf(t, s, fmt.Sprintf("blk.%d.%s", layer-r.Start, kind)), bytesOf(t, f, tensor.Name)) {
			t.Errorf("%v: %s differs", r, tensor.Name)
		}
	}
	if len(s.Tensors) != layers+2 {
		t.Errorf("%v: %d tensors, %d of layers", r, len(s.Tensors), layers)
	}
	if last {
		checkHead(t, f, m, s)
	} else {
		checkMiddle(t, m, s)
	}
}

func checkHead(t *testing.T, f *gguf.File, m *gguf.Model, s *gguf.File) {
	t.Helper()
	head := "output.weight"
	if m.Tied {
		head = "token_embd.weight"
	}
	if !bytes.Equal(bytesOf(t, s, "token_embd.weight"), bytesOf(t, f, head)) {
		t.Error("the last stage's head is not the model's")
	}
	if !bytes.Equal(bytesOf(t, s, "output_norm.weight"), bytesOf(t, f, "output_norm.weight")) {
		t.Error("the last stage's norm is not the model's")
	}
	if !slices.Equal(s.Strings("tokenizer.ggml.tokens"), f.Strings("tokenizer.ggml.tokens")) || s.String("tokenizer.ggml.model") != "gpt2" {
		t.Error("the last stage's tokenizer is not the model's")
	}
}

func checkMiddle(t *testing.T, m *gguf.Model, s *gguf.File) {
	t.Helper()
	embedding, _ := s.Tensor("token_embd.weight")
	if !slices.Equal(embedding.Dims, []uint64{uint64(m.Width), 1}) || embedding.Type != gguf.F32 {
		t.Errorf("the stand-in for the embedding is %d of %s", embedding.Dims, embedding.Type)
	}
	norm := bytesOf(t, s, "output_norm.weight")
	for i := 0; i < len(norm); i += 4 {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(norm[i:])); v != 1 {
			t.Fatalf("the stand-in for the norm holds %v", v)
		}
	}
	if words, _ := s.Uint(m.Architecture + ".vocab_size"); words != 1 || s.String("tokenizer.ggml.model") != "no_vocab" {
		t.Errorf("vocab_size %d, tokenizer %q", words, s.String("tokenizer.ggml.model"))
	}
	for _, kv := range s.KVs {
		if strings.HasPrefix(kv.Key, "tokenizer.") && kv.Key != "tokenizer.ggml.model" {
			t.Errorf("the key %s is carried along", kv.Key)
		}
	}
}

func TestEmbeddingAndVocabulary(t *testing.T) {
	f := read(t, generate(t, every["llama tied"]))
	m, man := inspect(t, f), manifest(t, f)
	p, err := gguf.PlanEmbedding(f, m)
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, written(t, p, f, man))
	if len(s.Tensors) != 1 || !bytes.Equal(bytesOf(t, s, "token_embd.weight"), bytesOf(t, f, "token_embd.weight")) {
		t.Error("the embedding is not the model's")
	}
	p, err = gguf.PlanVocabulary(f, m)
	if err != nil {
		t.Fatal(err)
	}
	s = read(t, written(t, p, f, man))
	if len(s.Tensors) != 0 || len(s.KVs) != len(f.KVs) || len(p.Ranges()) != 0 {
		t.Errorf("the vocabulary has %d tensors and %d keys of %d", len(s.Tensors), len(s.KVs), len(f.KVs))
	}
}

// TestRangesAreFew: on the usual layout a middle stage is one range and no more
// than padding is fetched beside it.
func TestRangesAreFew(t *testing.T) {
	f := read(t, generate(t, every["qwen3"]))
	m := inspect(t, f)
	for r, want := range map[gguf.Range]int{{0, 2}: 1, {2, 4}: 1, {3, 5}: 2} {
		p, err := gguf.PlanSlice(f, m, r)
		if err != nil {
			t.Fatal(err)
		}
		ranges := p.Ranges()
		if len(ranges) != want {
			t.Errorf("%v: %d ranges", r, len(ranges))
		}
		for _, tensor := range p.Tensors {
			inside := slices.ContainsFunc(ranges, func(b gguf.ByteRange) bool {
				return b.Offset <= tensor.SourceOffset && tensor.SourceOffset+tensor.Size <= b.Offset+b.Size
			})
			if tensor.Source != "" && !inside {
				t.Errorf("%v: %s is in no range", r, tensor.Source)
			}
		}
	}
}

func TestKeysKnowTheirBytes(t *testing.T) {
	key := func(c randmodel.Config, r gguf.Range) string {
		f := read(t, generate(t, c))
		p, err := gguf.PlanSlice(f, inspect(t, f), r)
		if err != nil {
			t.Fatal(err)
		}
		return p.Key(manifest(t, f))
	}
	base := key(randmodel.Config{}, gguf.Range{Start: 0, End: 1})
	if base != key(randmodel.Config{}, gguf.Range{Start: 0, End: 1}) {
		t.Error("the same slice has two keys")
	}
	others := map[string]string{
		"other weights": key(randmodel.Config{Seed: 1}, gguf.Range{Start: 0, End: 1}),
		"other layer":   key(randmodel.Config{}, gguf.Range{Start: 1, End: 2}),
		"other context": key(randmodel.Config{Context: 99}, gguf.Range{Start: 0, End: 1}),
	}
	for what, k := range others {
		if k == base {
			t.Errorf("%s: the same key", what)
		}
	}
}

// TestChangedSourceIsNoticed: a file that changes after its manifest was made
// does not become a slice.
func TestChangedSourceIsNoticed(t *testing.T) {
	b := generate(t, randmodel.Config{})
	f := read(t, b)
	m, man := inspect(t, f), manifest(t, f)
	p, err := gguf.PlanSlice(f, m, gguf.Range{Start: 1, End: 2})
	if err != nil {
		t.Fatal(err)
	}
	tensor, _ := f.Tensor("blk.1.ffn_up.weight")
	b[tensor.Offset+7] ^= 1
	err = p.Write(context.Background(), &bytes.Buffer{}, f, man, nil)
	if !errors.Is(err, fault.GGUFDataChanged) || fault.From(err).Attr("tensor") != "blk.1.ffn_up.weight" {
		t.Errorf("got %v", err)
	}
}

// TestVerifyFindsEveryFlippedByte plants one wrong byte in every place near the
// start of a slice and in many behind.
func TestVerifyFindsEveryFlippedByte(t *testing.T) {
	f := read(t, generate(t, randmodel.Config{Architecture: "qwen2", Width: 8, FFN: 12}))
	m, man := inspect(t, f), manifest(t, f)
	p, err := gguf.PlanSlice(f, m, gguf.Range{Start: 0, End: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := written(t, p, f, man)
	verify := func() error {
		return p.Verify(context.Background(), bytes.NewReader(b), int64(len(b)), man, nil)
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(b); at += 1 + at/300 {
		b[at] ^= 0x10
		if verify() == nil {
			t.Fatalf("byte %d is wrong and nobody notices", at)
		}
		b[at] ^= 0x10
	}
	b = b[:len(b)-1]
	if verify() == nil {
		t.Error("a byte is missing and nobody notices")
	}
}

func TestDifferingCountsTensors(t *testing.T) {
	f := read(t, generate(t, randmodel.Config{}))
	m, man := inspect(t, f), manifest(t, f)
	p, err := gguf.PlanSlice(f, m, gguf.Range{Start: 1, End: 2})
	if err != nil {
		t.Fatal(err)
	}
	good := written(t, p, f, man)
	first, last := p.Tensors[0], p.Tensors[len(p.Tensors)-1]
	other := manifest(t, read(t, generate(t, randmodel.Config{Seed: 1})))
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		man    *gguf.Manifest
		want   int
	}{
		"nothing": {func(b []byte) []byte { return b }, man, 0},
		"two bits": {func(b []byte) []byte {
			b[first.Offset] ^= 1
			b[last.Offset+last.Size-1] ^= 0x80
			return b
		}, man, 2},
		"the header":       {func(b []byte) []byte { b[9] ^= 1; return b }, man, len(p.Tensors)},
		"another size":     {func(b []byte) []byte { return b[:len(b)-1] }, man, len(p.Tensors)},
		"another revision": {func(b []byte) []byte { return b }, other, len(p.Tensors) - 2}, // less the two stand-ins
	} {
		b := c.change(bytes.Clone(good))
		if got, err := p.Differing(t.Context(), bytes.NewReader(b), int64(len(b)), c.man); err != nil || got != c.want {
			t.Errorf("%s: %d tensors differ, want %d: %v", name, got, c.want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Differing(ctx, bytes.NewReader(good), int64(len(good)), man); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCancelledWriteStops(t *testing.T) {
	f := read(t, generate(t, randmodel.Config{}))
	m, man := inspect(t, f), manifest(t, f)
	p, err := gguf.PlanSlice(f, m, gguf.Range{Start: 0, End: 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Write(ctx, &bytes.Buffer{}, f, man, nil); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("got %v", err)
	}
	if _, err := gguf.BuildManifest(ctx, f, nil); !errors.Is(err, fault.RunInterrupted) {
		t.Errorf("got %v", err)
	}
}
