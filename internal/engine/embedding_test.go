package engine

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// quantise makes a tensor of a type out of floats with ggml's own reference code.
func quantise(t testing.TB, typ gguf.Type, values []float32, width int) []byte {
	t.Helper()
	library(t)
	base, err := loader.LoadLibrary(testkit.EngineDir(t), "ggml-base")
	if err != nil {
		t.Fatal(err)
	}
	f, err := base.Prep("ggml_quantize_chunk", &ffi.TypeUint64, &ffi.TypeSint32, &ffi.TypePointer, &ffi.TypePointer,
		&ffi.TypeSint64, &ffi.TypeSint64, &ffi.TypeSint64, &ffi.TypePointer)
	if err != nil {
		t.Fatal(err)
	}
	row, known := typ.RowSize(uint64(width))
	if !known {
		t.Fatalf("no row of %d of %s", width, typ)
	}
	rows, from, perRow := int64(len(values)/width), int64(0), int64(width)
	out := make([]byte, row*rows)
	src, dst, none := unsafe.Pointer(&values[0]), unsafe.Pointer(&out[0]), unsafe.Pointer(nil)
	var n ffi.Arg
	f.Call(unsafe.Pointer(&n), unsafe.Pointer(&typ), unsafe.Pointer(&src), unsafe.Pointer(&dst),
		unsafe.Pointer(&from), unsafe.Pointer(&rows), unsafe.Pointer(&perRow), unsafe.Pointer(&none))
	if int(n) != len(out) {
		t.Fatalf("%s: %d bytes, want %d", typ, n, len(out))
	}
	return out
}

// withEmbedding rewrites a model so that its embedding has another type.
func withEmbedding(t testing.TB, path string, typ gguf.Type) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var infos []gguf.Info
	for _, tensor := range f.Tensors {
		info := gguf.Info{Name: tensor.Name, Dims: tensor.Dims, Type: tensor.Type}
		if tensor.Name == "token_embd.weight" {
			info.Type = typ
		}
		infos = append(infos, info)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "rewritten.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = gguf.Write(out, f.KVs, infos, func(i int, w io.Writer) error {
		data, err := io.ReadAll(f.Data(f.Tensors[i]))
		if infos[i].Type != f.Tensors[i].Type {
			values := unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
			data = quantise(t, typ, values, int(infos[i].Dims[0]))
		}
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Name()
}

// ownRows are the embedding rows as llama.cpp computes them from token ids: those of the
// node of its graph that holds them.
func ownRows(t testing.TB, path, node string, ids []int32) []float32 {
	t.Helper()
	m := openModel(t, path)
	p := ContextParams{Recipe: recipe(), Role: Whole}
	params, err := contextParams(p)
	if err != nil {
		t.Fatal(err)
	}
	c := newContext(m, p, params)
	t.Cleanup(c.Close)
	c.watch(node, &params, false)
	if err := m.acquire(); err != nil {
		t.Fatal(err)
	}
	if err := c.open(params); err != nil {
		t.Fatal(err)
	}
	if err := c.DecodeTokens(run(0, 0, len(ids), false), ids); err != nil {
		t.Fatal(err)
	}
	return c.Rows()
}

func TestEmbeddingEqualsTheWholeModelsOwn(t *testing.T) {
	plain := random(t, randmodel.Config{Width: 256, Layers: 1})
	for _, typ := range []gguf.Type{
		gguf.F32, gguf.F16, 30 /* BF16 */, gguf.Q8_0, gguf.Q4_0, 3 /* Q4_1 */, 6 /* Q5_0 */, 7, /* Q5_1 */
		10 /* Q2_K */, 11 /* Q3_K */, gguf.Q4_K, 13 /* Q5_K */, 14 /* Q6_K */, 20 /* IQ4_NL */, 23, /* IQ4_XS */
	} {
		t.Run(typ.String(), func(t *testing.T) {
			path := plain
			if typ != gguf.F32 {
				path = withEmbedding(t, plain, typ)
			}
			ids := append(tokens(512, 50, uint64(typ)), 0, 511, 0)
			compareEmbedding(t, path, "embd", ids)
		})
	}
	t.Run("scaled", func(t *testing.T) {
		compareEmbedding(t, random(t, randmodel.Config{Architecture: "gemma3", Type: "f16"}), "inp_scaled", tokens(512, 40, 1))
	})
}

func compareEmbedding(t *testing.T, path, node string, ids []int32) {
	t.Helper()
	p := cut(t, path, 1)
	e, err := library(t).OpenEmbedding(p.table, p.scale)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, len(ids)*p.table.Width)
	if err := e.Rows(ids, got); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "embedding", got, ownRows(t, path, node, ids))
	again := make([]float32, p.table.Width)
	if err := e.Rows(ids[:1], again); err != nil { // fewer than before
		t.Fatal(err)
	}
	sameBits(t, "one row", again, got[:p.table.Width])
}

func TestEmbeddingRefuses(t *testing.T) {
	l := library(t)
	for name, table := range map[string]Table{
		"no such type":    {Type: 43, Width: 256, Rows: 4},
		"far beyond":      {Type: math.MaxUint32, Width: 256, Rows: 4},
		"removed type":    {Type: 4, Width: 256, Rows: 4},
		"integers":        {Type: 26, Width: 256, Rows: 4},
		"a part of block": {Type: 12, Width: 100, Rows: 4},
		"no width":        {Type: 0, Width: 0, Rows: 4},
		"no rows":         {Type: 0, Width: 4, Rows: 0},
	} {
		if _, err := l.OpenEmbedding(table, 1); fault.From(err).Code != fault.ModelTensorUnsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := l.OpenEmbedding(Table{Source: bytes.NewReader(make([]byte, 4*4*3+1)), Offset: 1, Width: 4, Rows: 4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float32, 4)
	for _, c := range []struct {
		ids  []int32
		dst  []float32
		code fault.Code
	}{
		{[]int32{-1}, dst, fault.StageRecordInvalid},
		{[]int32{4}, dst, fault.StageRecordInvalid},
		{[]int32{1}, dst[:3], fault.StageRowsMismatch},
		{[]int32{1, 2}, dst, fault.StageRowsMismatch},
		{[]int32{3}, dst, fault.GGUFFileUnreadable}, // the table is cut off before its last row
	} {
		if err := e.Rows(c.ids, c.dst); fault.From(err).Code != c.code {
			t.Errorf("%v into %d: %v, want %s", c.ids, len(c.dst), err, c.code)
		}
	}
	if err := e.Rows(nil, nil); err != nil {
		t.Errorf("no ids: %v", err)
	}
}

// The table of types in Go is that of the library.
func TestTypesAreThoseOfTheLibrary(t *testing.T) {
	l := library(t)
	for typ := range gguf.Type(60) {
		tr := traitsOf(l.typeTraits, llama.GGMLType(typ))
		if known := tr.size > 0; known != typ.Known() {
			t.Errorf("type %d: known to ggml %v, to gguf %v", typ, known, typ.Known())
			continue
		}
		if !typ.Known() {
			continue
		}
		row, _ := typ.RowSize(uint64(tr.block) * 3)
		if int64(typ.Block()) != tr.block || row != 3*tr.size {
			t.Errorf("type %s: %d values in %d bytes, to ggml %d in %d", typ, typ.Block(), row/3, tr.block, tr.size)
		}
	}
}
