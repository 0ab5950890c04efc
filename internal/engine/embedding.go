package engine

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/jupiterrider/ffi"

	"muster/internal/fault"
)

// traits is struct ggml_type_traits up to the function it is read for.
type traits struct {
	name    *byte
	block   int64   // values in a block
	_       int64   // of an interleaved block
	size    int64   // bytes of a block
	_       bool    // quantised
	toFloat uintptr // void (*)(const void * x, float * y, int64_t k); 0 for F32
}

// traitsOf reads ggml's type table; ggml aborts on a type beyond its end.
func traitsOf(f ffi.Fun, typ llama.GGMLType) traits {
	if typ < 0 || typ >= llama.GGMLTypeCOUNT {
		return traits{}
	}
	var p *traits
	f.Call(unsafe.Pointer(&p), unsafe.Pointer(&typ))
	return *p
}

// Table says where the rows of token_embd.weight lie.
type Table struct {
	Source io.ReaderAt
	Offset int64  // bytes before the first row
	Type   uint32 // ggml type
	Width  int    // values of a row, n_embd
	Rows   int    // tokens
}

// Embedding looks rows of hidden state up by token id, with the numbers that a whole
// model computes with.
type Embedding struct {
	table Table
	scale float32
	row   int64 // bytes
	to    uintptr
	bytes []byte
}

// OpenEmbedding prepares look-ups in a table. Each row is multiplied by scale unless
// that is 0 or 1.
//
// Faults: ModelTensorUnsupported for a type ggml cannot turn into floats or a width
// that is no multiple of its block.
func (l *Library) OpenEmbedding(t Table, scale float32) (*Embedding, error) {
	e := &Embedding{table: t, scale: scale}
	tr := traitsOf(l.typeTraits, llama.GGMLType(t.Type))
	plain := llama.GGMLType(t.Type) == llama.GGMLTypeF32
	if tr.size <= 0 || tr.block <= 0 || (tr.toFloat == 0 && !plain) {
		return nil, unsupported(fmt.Sprintf("%d", t.Type))
	}
	if t.Width < 1 || t.Rows < 1 || int64(t.Width)%tr.block != 0 {
		return nil, unsupported(fmt.Sprintf("%s of %d x %d", cString(tr.name, 32), t.Width, t.Rows))
	}
	e.row, e.to = int64(t.Width)/tr.block*tr.size, tr.toFloat
	return e, nil
}

func unsupported(typ string) *fault.Fault {
	return fault.New(fault.ModelTensorUnsupported, component, "tensor", "token_embd.weight", "type", typ)
}

// Rows writes the rows of ids to dst, which holds Width floats for each.
//
// Faults: StageRecordInvalid for an id out of range, StageRowsMismatch for another
// length, GGUFFileUnreadable where the table cannot be read.
func (e *Embedding) Rows(ids []int32, dst []float32) error {
	if want := len(ids) * e.table.Width; len(dst) != want {
		return fault.New(fault.StageRowsMismatch, component, "got", len(dst), "want", want)
	}
	if len(ids) == 0 {
		return nil
	}
	if need := int64(len(ids)) * e.row; int64(len(e.bytes)) < need {
		e.bytes = make([]byte, need)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= e.table.Rows {
			return invalid("the token %d is not one of %d", id, e.table.Rows)
		}
		at := e.bytes[int64(i)*e.row:][:e.row]
		if n, err := e.table.Source.ReadAt(at, e.table.Offset+int64(id)*e.row); n < len(at) {
			return fault.New(fault.GGUFFileUnreadable, component, "path", "token_embd.weight").Because(err)
		}
	}
	if e.to == 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 4*len(dst)), e.bytes)
	} else {
		purego.SyscallN(e.to, uintptr(unsafe.Pointer(&e.bytes[0])), uintptr(unsafe.Pointer(&dst[0])), uintptr(len(dst)))
	}
	if e.scale != 0 && e.scale != 1 {
		for i := range dst {
			dst[i] *= e.scale
		}
	}
	return nil
}
