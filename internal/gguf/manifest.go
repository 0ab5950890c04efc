package gguf

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"slices"
	"strings"

	"muster/internal/fault"
)

// Manifest says what a model is, whatever the layout of its files.
type Manifest struct {
	Revision string         `json:"revision"` // digest over keys and tensors
	Keys     string         `json:"keys"`     // digest over the keys
	Tensors  []TensorDigest `json:"tensors"`  // by name
}

// TensorDigest is one tensor's identity. Digests are SHA-256 in hexadecimal.
type TensorDigest struct {
	Name   string   `json:"name"`
	Type   Type     `json:"type"`
	Dims   []uint64 `json:"dims"`
	Size   int64    `json:"size"` // bytes
	Digest string   `json:"digest"`
}

// BuildManifest reads every tensor of the model once. progress, which may be
// nil, is told bytes.
func BuildManifest(ctx context.Context, f *File, progress func(done, total int64)) (*Manifest, error) {
	man := &Manifest{Keys: keysDigest(f.KVs)}
	meter := newMeter(progress, f.Size())
	for _, t := range f.Tensors {
		h := sha256.New()
		if err := f.copyTensor(ctx, h, t.Part, t.Offset, t.Size, meter); err != nil {
			return nil, err
		}
		man.Tensors = append(man.Tensors, TensorDigest{Name: t.Name, Type: t.Type, Dims: t.Dims, Size: t.Size, Digest: sum(h)})
	}
	slices.SortFunc(man.Tensors, func(a, b TensorDigest) int { return strings.Compare(a.Name, b.Name) })
	man.Revision = man.revision()
	return man, nil
}

// Tensor returns the digest of a tensor, and whether there is one.
func (man *Manifest) Tensor(name string) (TensorDigest, bool) {
	i, ok := slices.BinarySearchFunc(man.Tensors, name, func(t TensorDigest, n string) int { return strings.Compare(t.Name, n) })
	if !ok {
		return TensorDigest{}, false
	}
	return man.Tensors[i], true
}

// Describes reports whether the manifest, which may come from a disk, is whole
// and has the keys, names, types and sizes of f. It does not read tensors.
func (man *Manifest) Describes(f *File) bool {
	if man.Keys != keysDigest(f.KVs) || man.Revision != man.revision() || len(man.Tensors) != len(f.Tensors) {
		return false
	}
	for _, t := range f.Tensors {
		d, ok := man.Tensor(t.Name)
		if !ok || d.Type != t.Type || d.Size != t.Size || !slices.Equal(d.Dims, t.Dims) {
			return false
		}
	}
	return true
}

func (man *Manifest) revision() string {
	h := sha256.New()
	hashTexts(h, "muster revision 1", man.Keys)
	for _, t := range man.Tensors {
		hashTexts(h, t.Name, t.Type.String(), t.Digest)
		hashNumbers(h, t.Dims...)
	}
	return sum(h)
}

// keysDigest leaves out what belongs to a file's layout, and the order.
func keysDigest(kvs []KV) string {
	ordered := slices.DeleteFunc(slices.Clone(kvs), func(kv KV) bool { return ofLayout(kv.Key) })
	slices.SortFunc(ordered, func(a, b KV) int { return strings.Compare(a.Key, b.Key) })
	h := sha256.New()
	for _, kv := range ordered {
		hashTexts(h, kv.Key, string(kv.Value))
		hashNumbers(h, uint64(kv.Type), uint64(kv.Elem), uint64(kv.Count))
	}
	return sum(h)
}

// ofLayout reports whether a key says how a model lies in its files.
func ofLayout(key string) bool { return key == keyAlignment || strings.HasPrefix(key, "split.") }

func hashTexts(h hash.Hash, texts ...string) {
	for _, s := range texts {
		hashNumbers(h, uint64(len(s)))
		_, _ = io.WriteString(h, s)
	}
}

func hashNumbers(h hash.Hash, numbers ...uint64) {
	for _, n := range numbers {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, n))
	}
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// meter adds up progress.
type meter struct {
	tell        func(done, total int64)
	done, total int64
}

func newMeter(tell func(done, total int64), total int64) *meter {
	if tell == nil {
		tell = func(int64, int64) {}
	}
	return &meter{tell: tell, total: total}
}

func (m *meter) add(n int) {
	m.done += int64(n)
	m.tell(m.done, m.total)
}

// copyTensor copies size bytes of a part to w in pieces, looking at ctx before
// each. Errors of w are returned as they are.
func (f *File) copyTensor(ctx context.Context, w io.Writer, part int, offset, size int64, m *meter) error {
	buf := make([]byte, min(size, 1<<20))
	in := f.Section(part, offset, size)
	for left := size; left > 0; {
		if ctx.Err() != nil {
			return fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
		}
		b := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(in, b); err != nil {
			return fault.New(fault.GGUFFileUnreadable, component, "path", f.Parts[part].Path).Because(err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		left -= int64(len(b))
		m.add(len(b))
	}
	return nil
}
