package gguf

import (
	"encoding/binary"
	"fmt"
	"io"

	"muster/internal/fault"
)

// version written: 3, little-endian.
const writtenVersion = 3

// Info describes a tensor to be written.
type Info struct {
	Name string
	Dims []uint64
	Type Type
}

// Size is the bytes of the tensor.
func (i Info) Size() (int64, error) {
	return new(Part).sizeOf(Tensor{Name: i.Name, Dims: i.Dims, Type: i.Type})
}

// Layout is where everything of a file to be written lies.
type Layout struct {
	Header  []byte  // padded: the first tensor follows at once
	Offsets []int64 // of each tensor, from the start of the file
	Sizes   []int64 // bytes of each tensor, without padding
	Total   int64   // bytes of the file
}

// Arrange lays out a file with these keys and tensors, in this order, each
// tensor aligned to 32 bytes. general.alignment must not be among the keys.
func Arrange(kvs []KV, tensors []Info) (*Layout, error) {
	h := binary.LittleEndian.AppendUint32([]byte(magic), writtenVersion)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(tensors)))
	h = binary.LittleEndian.AppendUint64(h, uint64(len(kvs)))
	for _, kv := range kvs {
		h = appendKV(h, kv)
	}
	l := &Layout{}
	var at int64
	for _, t := range tensors {
		size, err := t.Size()
		if err != nil {
			return nil, err
		}
		h = appendInfo(h, t, at)
		l.Offsets, l.Sizes = append(l.Offsets, at), append(l.Sizes, size)
		at = pad(at+size, defaultAlign)
	}
	h = append(h, make([]byte, pad(int64(len(h)), defaultAlign)-int64(len(h)))...)
	l.Header = h
	for i := range l.Offsets {
		l.Offsets[i] += int64(len(l.Header))
	}
	l.Total = int64(len(l.Header)) + at
	return l, nil
}

func appendKV(h []byte, kv KV) []byte {
	h = appendText(h, kv.Key)
	h = binary.LittleEndian.AppendUint32(h, uint32(kv.Type))
	switch kv.Type {
	case KeyString:
		h = binary.LittleEndian.AppendUint64(h, uint64(len(kv.Value)))
	case KeyArray:
		h = binary.LittleEndian.AppendUint32(h, uint32(kv.Elem))
		h = binary.LittleEndian.AppendUint64(h, uint64(kv.Count))
	default: // scalars carry no length
	}
	return append(h, kv.Value...)
}

func appendInfo(h []byte, t Info, offset int64) []byte {
	h = appendText(h, t.Name)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(t.Dims)))
	for _, d := range t.Dims {
		h = binary.LittleEndian.AppendUint64(h, d)
	}
	h = binary.LittleEndian.AppendUint32(h, uint32(t.Type))
	return binary.LittleEndian.AppendUint64(h, uint64(offset))
}

// Write writes a whole file; data gives the bytes of tensor i to its writer
// and must give exactly Info.Size of them. An error of w or of data is
// returned as it is.
func Write(w io.Writer, kvs []KV, tensors []Info, data func(i int, w io.Writer) error) error {
	l, err := Arrange(kvs, tensors)
	if err != nil {
		return err
	}
	out := &counter{w: w}
	if _, err := out.Write(l.Header); err != nil {
		return err
	}
	for i, t := range tensors {
		if err := data(i, out); err != nil {
			return err
		}
		if got := out.n - l.Offsets[i]; got != l.Sizes[i] {
			return fault.New(fault.InternalUnexpected, component).Because(fmt.Errorf("the tensor %s was given %d bytes, it has %d", t.Name, got, l.Sizes[i]))
		}
		if err := out.pad(); err != nil {
			return err
		}
	}
	return nil
}

// counter counts what goes through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// pad writes zeroes up to the next aligned byte.
func (c *counter) pad() error {
	var zeroes [defaultAlign]byte
	_, err := c.Write(zeroes[:pad(c.n, defaultAlign)-c.n])
	return err
}
