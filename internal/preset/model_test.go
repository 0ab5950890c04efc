package preset

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"muster/internal/gguf"
)

// tiny is a manifest of the revision that facts names.
func tiny() *gguf.Manifest {
	return &gguf.Manifest{Revision: facts().Revision, Keys: "k", Tensors: []gguf.TensorDigest{
		{Name: "a", Dims: []uint64{4}, Size: 16, Digest: "1"}, {Name: "b", Dims: []uint64{4}, Size: 16, Digest: "2"},
	}}
}

func TestNameOfAModel(t *testing.T) {
	for path, want := range map[string]string{
		"/m/Llama-3.2-1B-Q8_0.gguf": "llama-3.2-1b-q8_0", "big-00001-of-00004.gguf": "big", "My Model (v2).GGUF": "my-model--v2-", "plain": "plain",
	} {
		if got := NameOf(path); got != want {
			t.Errorf("%s is called %s, want %s", path, got, want)
		}
	}
}

func TestChangesNameTheTensors(t *testing.T) {
	was := tiny()
	now := tiny()
	now.Keys = "other"
	now.Tensors = []gguf.TensorDigest{
		{Name: "a", Dims: []uint64{4}, Size: 16, Digest: "9"},
		{Name: "c", Dims: []uint64{4}, Size: 16, Digest: "2"},
	}
	want := []Change{{"", "keys of the header changed"}, {"a", "changed"}, {"b", "missing"}, {"c", "added"}}
	if got := Changes(was, now); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	now = tiny()
	now.Tensors[1].Dims = []uint64{2, 2}
	if got := Changes(was, now); !slices.Equal(got, []Change{{"b", "reshaped"}}) {
		t.Errorf("got %v", got)
	}
	if got := Changes(was, tiny()); len(got) != 0 {
		t.Errorf("got %v of the same", got)
	}
}

// Whichever byte of a model's file is changed, the manifest or the frame is
// another.
func TestEveryByteOfAModelCounts(t *testing.T) {
	var file bytes.Buffer
	infos := []gguf.Info{{Name: "b", Dims: []uint64{3}, Type: gguf.F32}, {Name: "a", Dims: []uint64{5}, Type: gguf.F32}}
	err := gguf.Write(&file, []gguf.KV{gguf.Text("general.architecture", "llama")}, infos, func(i int, w io.Writer) error {
		_, err := w.Write(make([]byte, 4*infos[i].Dims[0]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	identity := func(b []byte) string {
		f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), "m")
		if err != nil {
			return err.Error()
		}
		man, err := gguf.BuildManifest(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := FrameDigest(f)
		if err != nil {
			t.Fatal(err)
		}
		return man.Revision + frame
	}
	whole := file.Bytes()
	want := identity(whole)
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x01
		if identity(changed) == want {
			t.Errorf("byte %d of %d does not count", at, len(whole))
		}
	}
	if identity(append(bytes.Clone(whole), 0)) == want {
		t.Error("a byte more does not count")
	}
}
