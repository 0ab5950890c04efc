package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"muster/internal/fault"
)

// The bounds of llama.cpp (GGML_MAX_DIMS, GGML_MAX_NAME) and of good sense.
const (
	magic        = "GGUF"
	maxDims      = 4
	maxName      = 63
	maxKey       = 64 << 10
	maxKeys      = 1 << 20
	maxTensors   = 1 << 20
	maxAlignment = 1 << 20
	defaultAlign = 32

	keyAlignment = "general.alignment"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Dims   []uint64 // 1 to 4, values of a row first, none 0
	Type   Type
	Part   int   // index into File.Parts
	Offset int64 // bytes from the start of its part
	Size   int64 // bytes, without padding
}

// Part is one file of a model; most models have one.
type Part struct {
	Path string
	Size int64    // bytes
	File *os.File // nil where the model was read from memory

	in      io.ReaderAt
	version uint32
	align   int64
	kvs     []KV
	tensors []Tensor
}

func parse(r io.ReaderAt, size int64, name string) (*Part, error) {
	p := &Part{Path: name, Size: size, in: r, align: defaultAlign}
	if size == 0 {
		return nil, fault.New(fault.GGUFFileEmpty, component, "path", name)
	}
	c := newCursor(r, size, name)
	tensors, keys := p.preamble(c)
	p.readKeys(c, keys)
	p.readTensors(c, tensors)
	if c.err != nil {
		return nil, c.err
	}
	if err := p.place(c.at); err != nil {
		return nil, err
	}
	return p, nil
}

// preamble reads magic, version and the numbers of tensors and keys.
func (p *Part) preamble(c *cursor) (tensors, keys uint64) {
	head := c.bytes(uint64(min(len(magic), int(min(p.Size, 4)))))
	if c.err == nil && string(head) != magic[:len(head)] {
		c.err = fault.New(fault.GGUFMagicWrong, component, "path", p.Path)
		return 0, 0
	}
	p.version = c.uint32()
	if c.err == nil && p.version != 2 && p.version != 3 {
		c.err = fault.New(fault.GGUFVersionUnsupported, component, "path", p.Path, "version", versionText(p.version))
		return 0, 0
	}
	tensors, keys = c.uint64(), c.uint64()
	if tensors > maxTensors || keys > maxKeys {
		c.invalid("it claims %d tensors and %d keys", tensors, keys)
	}
	return tensors, keys
}

func versionText(v uint32) string {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	if swapped := binary.BigEndian.Uint32(b[:]); swapped > 0 && swapped < 16 {
		return fmt.Sprintf("%d, big-endian", swapped)
	}
	return fmt.Sprint(v)
}

func (p *Part) readKeys(c *cursor, count uint64) {
	seen := map[string]bool{}
	for range count {
		kv := KV{Key: c.label("key", maxKey), Type: KeyType(c.uint32())}
		c.value(&kv)
		if c.err == nil && seen[kv.Key] {
			c.invalid("the key %s stands twice", kv.Key)
		}
		if c.err != nil {
			return
		}
		seen[kv.Key] = true
		p.kvs = append(p.kvs, kv)
		if kv.Key == keyAlignment {
			p.setAlignment(c, kv)
		}
	}
}

func (p *Part) setAlignment(c *cursor, kv KV) {
	v, ok := kv.Uint()
	if !ok || v == 0 || v > maxAlignment || v&(v-1) != 0 {
		c.invalid("its alignment is not a power of two up to %d", maxAlignment)
		return
	}
	p.align = int64(v)
}

func (c *cursor) value(kv *KV) {
	switch {
	case c.err != nil:
	case kv.Type == KeyString:
		kv.Value = c.bytes(c.uint64())
	case kv.Type == KeyArray:
		c.array(kv)
	case kv.Type.width() > 0:
		kv.Value = c.bytes(uint64(kv.Type.width()))
	default:
		c.invalid("the key %s has a value of type %d, which is not known", kv.Key, kv.Type)
	}
}

func (c *cursor) array(kv *KV) {
	kv.Elem = KeyType(c.uint32())
	count := c.uint64()
	least := uint64(kv.Elem.width())
	switch {
	case c.err != nil:
		return
	case kv.Elem == KeyArray:
		c.invalid("the key %s holds an array of arrays", kv.Key)
		return
	case kv.Elem == KeyString:
		least = 8
	case least == 0:
		c.invalid("the key %s has elements of type %d, which is not known", kv.Key, kv.Elem)
		return
	}
	total, fits := product(count, least)
	if !fits {
		c.invalid("the key %s claims %d elements", kv.Key, count)
	}
	if !c.has(uint64(total)) {
		return
	}
	kv.Count = int(count)
	if kv.Elem != KeyString {
		kv.Value = c.bytes(uint64(total))
		return
	}
	for range count {
		n := c.uint64()
		if !c.has(n) {
			return
		}
		kv.Value = binary.LittleEndian.AppendUint64(kv.Value, n)
		kv.Value = slices.Grow(kv.Value, int(n))[:len(kv.Value)+int(n)]
		c.read(kv.Value[len(kv.Value)-int(n):])
	}
}

func (p *Part) readTensors(c *cursor, count uint64) {
	for range count {
		t := Tensor{Name: c.label("tensor", maxName)}
		dims := c.uint32()
		if c.err == nil && (dims == 0 || dims > maxDims) {
			c.invalid("the tensor %s has %d dimensions, 1 to %d are allowed", t.Name, dims, maxDims)
		}
		for range dims {
			if c.err != nil {
				return
			}
			t.Dims = append(t.Dims, c.uint64())
		}
		t.Type = Type(c.uint32())
		offset := c.uint64()
		if c.err != nil {
			return
		}
		if t.Size, c.err = p.sizeOf(t); c.err != nil {
			return
		}
		if offset > uint64(p.Size) {
			c.err = p.cut(t, offset)
			return
		}
		t.Offset = int64(offset)
		p.tensors = append(p.tensors, t)
	}
}

// sizeOf is the bytes of a tensor; its type, its dimensions and their product
// are checked.
func (p *Part) sizeOf(t Tensor) (int64, error) {
	if !t.Type.Known() {
		return 0, fault.New(fault.ModelTensorUnsupported, component, "tensor", t.Name, "type", t.Type)
	}
	size, ok := t.Type.RowSize(t.Dims[0])
	for _, d := range t.Dims[1:] {
		if ok {
			size, ok = product(uint64(size), d)
		}
	}
	if !ok || size == 0 {
		return 0, fault.New(fault.GGUFHeaderInvalid, component, "path", p.Path,
			"what", fmt.Sprintf("the tensor %s cannot have the dimensions %d of type %s", t.Name, t.Dims, t.Type))
	}
	return size, nil
}

// place turns offsets into the data, which starts at the first aligned byte
// after the header, into offsets into the file, and checks that each tensor
// lies within the file, aligned and beside the others.
func (p *Part) place(headerEnd int64) error {
	start := pad(headerEnd, p.align)
	for i := range p.tensors {
		t := &p.tensors[i]
		if t.Offset%p.align != 0 {
			return fault.New(fault.GGUFHeaderInvalid, component, "path", p.Path,
				"what", fmt.Sprintf("the tensor %s starts at %d, which is not aligned to %d", t.Name, t.Offset, p.align))
		}
		t.Offset += start
		if t.Size > p.Size-t.Offset {
			return p.cut(*t, uint64(t.Offset)+uint64(t.Size))
		}
	}
	return p.apart()
}

func (p *Part) cut(t Tensor, need uint64) error {
	return fault.New(fault.GGUFDataTruncated, component, "path", p.Path, "size", p.Size, "tensor", t.Name, "need", need)
}

// apart refuses tensors that share bytes.
func (p *Part) apart() error {
	order := slices.Clone(p.tensors)
	slices.SortFunc(order, func(a, b Tensor) int { return int(min(1, max(-1, a.Offset-b.Offset))) })
	for i := 1; i < len(order); i++ {
		if before := order[i-1]; before.Offset+before.Size > order[i].Offset {
			return fault.New(fault.GGUFHeaderInvalid, component, "path", p.Path,
				"what", fmt.Sprintf("the tensors %s and %s overlap", before.Name, order[i].Name))
		}
	}
	return nil
}

func pad(n, align int64) int64 { return (n + align - 1) / align * align }
