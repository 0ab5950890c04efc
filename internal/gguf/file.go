package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"muster/internal/fault"
)

// File is the header of a model and the way to its data.
type File struct {
	Name    string // path of the file, or of the first part
	Version uint32
	KVs     []KV // in the order of the file; those of the first part
	Tensors []Tensor
	Parts   []*Part

	keys  map[string]int
	names map[string]int
}

// Open reads the header of the model at path. Any part of a split model
// (NAME-00001-of-0000N.gguf) stands for all of it. The faults are those of
// the GGUF family and model.tensor_unsupported.
func Open(path string) (*File, error) {
	first, err := openPart(path)
	if err != nil {
		return nil, err
	}
	parts, err := gather(first)
	if err != nil {
		return nil, err
	}
	f, err := assemble(parts)
	if err != nil {
		_ = closeAll(parts)
		return nil, err
	}
	return f, nil
}

// Source is one part of a model that is read from anywhere.
type Source struct {
	In   io.ReaderAt
	Size int64  // bytes
	Name string // stands for it in faults
}

// Read reads the header of a model that is one file of size bytes; name
// stands for it in faults. Close closes nothing.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	return ReadParts([]Source{{In: r, Size: size, Name: name}})
}

// ReadParts reads the headers of a model whose parts are given in order. Close
// closes nothing. Faults as of Open.
func ReadParts(sources []Source) (*File, error) {
	if len(sources) == 0 {
		return nil, fault.New(fault.GGUFSplitIncomplete, component, "path", "a model", "count", 0, "what", "no part was given")
	}
	parts := make([]*Part, len(sources))
	for i, s := range sources {
		p, err := parse(s.In, s.Size, s.Name)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	if err := complete(parts); err != nil {
		return nil, err
	}
	return assemble(parts)
}

func openPart(path string) (*Part, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.GGUFFileMissing, component, "path", path)
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, fault.New(fault.GGUFFileUnreadable, component, "path", path).Because(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.GGUFFileUnreadable, component, "path", path).Because(err)
	}
	p, err := parse(f, info.Size(), path)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	p.File = f
	return p, nil
}

// assemble makes one model of parts in order.
func assemble(parts []*Part) (*File, error) {
	first := parts[0]
	f := &File{
		Name: first.Path, Version: first.version, KVs: first.kvs, Parts: parts,
		keys: map[string]int{}, names: map[string]int{},
	}
	for i, kv := range f.KVs {
		f.keys[kv.Key] = i
	}
	for i, p := range parts {
		for _, t := range p.tensors {
			if _, twice := f.names[t.Name]; twice {
				return nil, fault.New(fault.GGUFHeaderInvalid, component, "path", p.Path, "what", fmt.Sprintf("the tensor %s stands twice", t.Name))
			}
			t.Part = i
			f.names[t.Name] = len(f.Tensors)
			f.Tensors = append(f.Tensors, t)
		}
	}
	return f, nil
}

// Close closes the files of the model.
func (f *File) Close() error { return closeAll(f.Parts) }

func closeAll(parts []*Part) error {
	var errs []error
	for _, p := range parts {
		if p.File != nil {
			errs = append(errs, p.File.Close())
		}
	}
	return errors.Join(errs...)
}

// KV returns the key, and whether there is one.
func (f *File) KV(key string) (KV, bool) {
	i, ok := f.keys[key]
	if !ok {
		return KV{}, false
	}
	return f.KVs[i], true
}

// String returns the text of a key, "" where it is absent or no text.
func (f *File) String(key string) string {
	if kv, ok := f.KV(key); ok {
		if s, ok := kv.Text(); ok {
			return s
		}
	}
	return ""
}

// Uint returns the whole number of a key; it is false where the key is absent
// or holds anything else.
func (f *File) Uint(key string) (uint64, bool) {
	kv, ok := f.KV(key)
	if !ok {
		return 0, false
	}
	return kv.Uint()
}

// Strings returns the texts of a key, nil where it is absent or holds anything
// else.
func (f *File) Strings(key string) []string {
	kv, _ := f.KV(key)
	v, _ := kv.Texts()
	return v
}

// Tensor returns the tensor, and whether there is one.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.names[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Data reads the bytes of a tensor.
func (f *File) Data(t Tensor) *io.SectionReader { return f.Section(t.Part, t.Offset, t.Size) }

// Section reads n bytes at an offset of a part.
func (f *File) Section(part int, offset, n int64) *io.SectionReader {
	return io.NewSectionReader(f.Parts[part].in, offset, n)
}

// Size is the bytes of all tensors.
func (f *File) Size() int64 {
	var n int64
	for _, t := range f.Tensors {
		n += t.Size
	}
	return n
}

// shown is a file's text made fit for a terminal: quoted where it holds
// something unprintable, cut where it is long.
func shown(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	if q := fmt.Sprintf("%q", s); strings.Trim(q, `"`) != s {
		return q
	}
	return s
}
