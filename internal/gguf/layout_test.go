package gguf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

func uint16Key(key string, v uint16) gguf.KV {
	return gguf.KV{Key: key, Type: gguf.KeyUint16, Value: []byte{byte(v), byte(v >> 8)}}
}

// splitModel writes a model as so many parts into a folder and returns their
// paths.
func splitModel(t *testing.T, b []byte, count int) []string {
	t.Helper()
	f := read(t, b)
	dir := t.TempDir()
	var paths []string
	for part := range count {
		kvs := []gguf.KV{uint16Key("split.no", uint16(part)), uint16Key("split.count", uint16(count)), gguf.Uint32("split.tensors.count", uint32(len(f.Tensors)))}
		if part == 0 {
			kvs = append(slices.Clone(f.KVs), kvs...)
		}
		var infos []gguf.Info
		var held []gguf.Tensor
		for i, x := range f.Tensors {
			if i*count/len(f.Tensors) == part {
				infos, held = append(infos, gguf.Info{Name: x.Name, Dims: x.Dims, Type: x.Type}), append(held, x)
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", part+1, count))
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		err = gguf.Write(out, kvs, infos, func(i int, w io.Writer) error {
			_, err := io.Copy(w, f.Data(held[i]))
			return err
		})
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// TestSplitFilesAreOneModel: the same revision and the same slices, whichever
// part is named.
func TestSplitFilesAreOneModel(t *testing.T) {
	b := generate(t, randmodel.Config{})
	whole := read(t, b)
	model, man := inspect(t, whole), manifest(t, whole)
	plan := func(f *gguf.File) *gguf.SlicePlan {
		p, err := gguf.PlanSlice(f, model, gguf.Range{Start: 1, End: 3})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	paths := splitModel(t, b, 3)
	for _, path := range paths {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Parts) != 3 || f.Name != paths[0] {
			t.Errorf("%s: %d parts, named %s", path, len(f.Parts), f.Name)
		}
		if got := manifest(t, f); got.Revision != man.Revision {
			t.Errorf("%s: another revision than the one file", path)
		}
		if !bytes.Equal(written(t, plan(f), f, man), written(t, plan(whole), whole, man)) {
			t.Errorf("%s: another slice than from the one file", path)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSplitFilesThatAreNotWhole(t *testing.T) {
	b := generate(t, randmodel.Config{})
	for name, damage := range map[string]func(paths []string) string{
		"a part is missing":   func(p []string) string { _ = os.Remove(p[1]); return p[0] },
		"the first is absent": func(p []string) string { _ = os.Remove(p[0]); return p[2] },
		"a part was renamed": func(p []string) string {
			to := filepath.Join(filepath.Dir(p[0]), "model.gguf")
			_ = os.Rename(p[0], to)
			return to
		},
		"two parts changed names": func(p []string) string {
			_ = os.Rename(p[0], p[0]+".x")
			_ = os.Rename(p[1], p[0])
			_ = os.Rename(p[0]+".x", p[1])
			return p[0]
		},
		"a part comes twice": func(p []string) string {
			b, _ := os.ReadFile(p[1])
			_ = os.WriteFile(p[2], b, 0o600)
			return p[0]
		},
		"a part lost its tensors": func(p []string) string {
			var b bytes.Buffer
			_ = gguf.Write(&b, []gguf.KV{uint16Key("split.no", 1), uint16Key("split.count", 3)}, nil, nil)
			_ = os.WriteFile(p[1], b.Bytes(), 0o600)
			return p[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := gguf.Open(damage(splitModel(t, b, 3)))
			if !errors.Is(err, fault.GGUFSplitIncomplete) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := gguf.Open(cutPart(t, b)); !errors.Is(err, fault.GGUFDataTruncated) {
		t.Errorf("a part that is cut: %v", err)
	}
}

// partsOf reads parts from memory, in the order given.
func partsOf(t *testing.T, paths []string) []gguf.Source {
	t.Helper()
	var all []gguf.Source
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, gguf.Source{In: bytes.NewReader(b), Size: int64(len(b)), Name: filepath.Base(path)})
	}
	return all
}

func TestPartsFromAnywhereAreOneModel(t *testing.T) {
	b := generate(t, randmodel.Config{})
	want := manifest(t, read(t, b)).Revision
	parts := partsOf(t, splitModel(t, b, 3))
	f, err := gguf.ReadParts(parts)
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest(t, f); got.Revision != want || len(f.Parts) != 3 {
		t.Errorf("%d parts have another revision", len(f.Parts))
	}
	whole := gguf.Source{In: bytes.NewReader(b), Size: int64(len(b)), Name: "whole"}
	for name, wrong := range map[string][]gguf.Source{
		"none":            {},
		"one too few":     parts[:2],
		"the first alone": parts[:1],
		"another order":   {parts[1], parts[0], parts[2]},
		"one twice":       {parts[0], parts[1], parts[1]},
		"one too many":    {parts[0], parts[1], parts[2], parts[2]},
		"one that is all": {parts[0], parts[1], whole},
		"two that are":    {whole, whole},
	} {
		if _, err := gguf.ReadParts(wrong); !errors.Is(err, fault.GGUFSplitIncomplete) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	parts[2].Size -= 100
	if _, err := gguf.ReadParts(parts); !errors.Is(err, fault.GGUFDataTruncated) {
		t.Errorf("a part that is cut: %v", err)
	}
}

func cutPart(t *testing.T, b []byte) string {
	t.Helper()
	paths := splitModel(t, b, 3)
	info, err := os.Stat(paths[2])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(paths[2], info.Size()-100); err != nil {
		t.Fatal(err)
	}
	return paths[0]
}

// TestRevisionIsOfTheContent: order, alignment and file layout do not count,
// every value does.
func TestRevisionIsOfTheContent(t *testing.T) {
	m := modelOf(t, randmodel.Config{Layers: 1})
	f := m.file(t)
	base := manifest(t, f)
	if !base.Describes(f) {
		t.Error("a manifest does not describe its own model")
	}

	turned := &model{kvs: slices.Clone(m.kvs), infos: slices.Clone(m.infos)}
	slices.Reverse(turned.kvs)
	turned.set(gguf.Uint32("general.alignment", 32))
	if got := manifest(t, turned.file(t)); got.Revision != base.Revision {
		t.Error("the order of keys changes the revision")
	}

	for what, change := range map[string]func(*model){
		"a key's value":    func(m *model) { m.set(gguf.Uint32("llama.context_length", 9)) },
		"a key's type":     func(m *model) { m.set(gguf.Text("llama.context_length", "\x00\x08\x00\x00")) },
		"a key more":       func(m *model) { m.set(gguf.Text("general.author", "x")) },
		"a tensor's name":  func(m *model) { m.rename("attn_q.", "attn_x.") },
		"a tensor's shape": func(m *model) { m.infos[0].Dims = []uint64{m.infos[0].Dims[1], m.infos[0].Dims[0]} },
		"a tensor less":    func(m *model) { m.drop("output.weight") },
	} {
		other := &model{kvs: slices.Clone(m.kvs), infos: slices.Clone(m.infos)}
		change(other)
		g := other.file(t)
		if manifest(t, g).Revision == base.Revision {
			t.Errorf("%s is other and the revision is the same", what)
		}
		if base.Describes(g) {
			t.Errorf("%s is other and the manifest is taken for its own", what)
		}
	}
	bad := *base
	bad.Tensors = slices.Clone(base.Tensors)
	bad.Tensors[0].Digest = base.Tensors[1].Digest
	if bad.Describes(f) {
		t.Error("a manifest with another digest inside is taken for whole")
	}
}

// TestWriteReadsBack: keys of every kind survive.
func TestWriteReadsBack(t *testing.T) {
	kvs := []gguf.KV{
		gguf.Text("a.text", "größer\x00"), gguf.Text("a.empty", ""), gguf.Uint32("a.number", 1<<31), gguf.Float32("a.float", -0.5),
		gguf.Bool("a.bool", true), gguf.Texts("a.texts", []string{"", "x", "yy"}), gguf.Int32s("a.numbers", []int32{0, 1, 1 << 30}),
		gguf.Texts("a.none", nil), uint16Key("a.short", 65535),
	}
	infos := []gguf.Info{{Name: "x", Dims: []uint64{3}, Type: gguf.F32}, {Name: "y", Dims: []uint64{32, 2, 1, 1}, Type: gguf.Q8_0}}
	var b bytes.Buffer
	err := gguf.Write(&b, kvs, infos, func(i int, w io.Writer) error {
		size, _ := infos[i].Size()
		_, err := w.Write(bytes.Repeat([]byte{byte(i + 1)}, int(size)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, b.Bytes())
	for i, kv := range f.KVs {
		want := kvs[i]
		if kv.Key != want.Key || kv.Type != want.Type || kv.Elem != want.Elem || kv.Count != want.Count || !bytes.Equal(kv.Value, want.Value) {
			t.Errorf("got %+v, want %+v", kv, want)
		}
	}
	if got := f.Strings("a.texts"); !slices.Equal(got, []string{"", "x", "yy"}) {
		t.Errorf("got %q", got)
	}
	if v, ok := f.Uint("a.number"); !ok || v != 1<<31 {
		t.Errorf("got %d, %v", v, ok)
	}
	if !bytes.Equal(bytesOf(t, f, "y"), bytes.Repeat([]byte{2}, 68)) {
		t.Error("a tensor's bytes are others")
	}
}

// TestRowSizes are those of the type traits of llama.cpp.
func TestRowSizes(t *testing.T) {
	for _, c := range []struct {
		t      gguf.Type
		values uint64
		want   int64
		ok     bool
	}{
		{gguf.F32, 3, 12, true},
		{gguf.F16, 3, 6, true},
		{gguf.Q8_0, 64, 68, true},
		{gguf.Q4_0, 32, 18, true},
		{gguf.Q4_K, 512, 288, true},
		{gguf.Q8_0, 33, 0, false},
		{gguf.F32, 1 << 62, 0, false},
		{4, 32, 0, false},
		{99, 32, 0, false},
	} {
		if got, ok := c.t.RowSize(c.values); got != c.want || ok != c.ok {
			t.Errorf("%s of %d values: %d, %v", c.t, c.values, got, ok)
		}
	}
}
