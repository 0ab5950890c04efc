package gguf_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

// seeds are whole models of 1 to 3 kB, small enough that a changed byte is
// likely to matter.
func seeds(f *testing.F) {
	for _, c := range []randmodel.Config{
		{Layers: 1},
		{Layers: 2, Architecture: "qwen3moe", Experts: 2},
		{Layers: 7, Architecture: "gemma3"},
	} {
		c.Width, c.FFN, c.Heads, c.HeadDim = 2, 2, 1, 2
		m := modelOf(f, c)
		m.kvs = slices.DeleteFunc(m.kvs, func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") })
		for _, i := range m.infos {
			if i.Name == "token_embd.weight" || i.Name == "output.weight" {
				i.Dims[1] = 3
			}
		}
		m.set(gguf.Text("tokenizer.ggml.model", "gpt2"))
		m.set(gguf.Texts("tokenizer.ggml.tokens", []string{"a", "b", "c"}))
		f.Add(m.bytes(f))
	}
	f.Add([]byte(start(3, 0, 1).key("a").of(9).of(8).u64(2).text("x").text("y")))
	f.Add([]byte(start(3, 2, 1).key("general.alignment").of(4).u32(8).tensor("b", 0, 32, 4).tensor("a", 0, 0, 4).padded(64)))
}

// FuzzRead: arbitrary bytes give a file or a fault of the catalogue, and take
// no more memory than a multiple of their number.
func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *gguf.File
		var err error
		grown := allocated(func() { file, err = gguf.Read(bytes.NewReader(b), int64(len(b)), "fuzz.gguf") })
		if limit := uint64(256<<10 + 64*len(b)); grown > limit {
			t.Errorf("%d bytes took %d of memory", len(b), grown)
		}
		if err != nil {
			if f := fault.From(err); !f.Code.Known() || f.Code == fault.InternalUnexpected {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		for _, x := range file.Tensors {
			if x.Offset < 0 || x.Size <= 0 || x.Offset+x.Size > int64(len(b)) {
				t.Errorf("%s lies at %d, %d bytes, in a file of %d", x.Name, x.Offset, x.Size, len(b))
			}
		}
		for _, kv := range file.KVs {
			kv.Uint()
			kv.Uints()
			kv.Texts()
			kv.Float32()
		}
	})
}

// FuzzPlan: whatever passes inspection can be cut at every allowed place, and
// what comes out passes inspection of its layout.
func FuzzPlan(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := gguf.Read(bytes.NewReader(b), int64(len(b)), "fuzz.gguf")
		if err != nil {
			return
		}
		m, err := gguf.Inspect(file)
		if err != nil {
			if f := fault.From(err); !f.Code.Known() || f.Code == fault.InternalUnexpected {
				t.Errorf("an error without a code: %v", err)
			}
			return
		}
		man := manifest(t, file)
		cuts := m.Cuts()
		for i := 1; i < len(cuts); i++ {
			plan(t, file, m, man, gguf.Range{Start: cuts[i-1], End: cuts[i]})
		}
	})
}

func plan(t *testing.T, f *gguf.File, m *gguf.Model, man *gguf.Manifest, r gguf.Range) {
	t.Helper()
	p, err := gguf.PlanSlice(f, m, r)
	if errors.Is(err, fault.ModelCutRefused) {
		return
	}
	if err != nil {
		t.Fatalf("%v cannot be planned: %v", r, err)
	}
	b := written(t, p, f, man)
	s := read(t, b)
	if n, _ := s.Uint(m.Architecture + ".block_count"); int(n) != r.Layers() {
		t.Errorf("%v: block_count is %d", r, n)
	}
	if err := p.Verify(context.Background(), bytes.NewReader(b), int64(len(b)), man, nil); err != nil {
		t.Error(err)
	}
}
