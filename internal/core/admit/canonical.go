package admit

import (
	"encoding/binary"
	"math"
)

// The canonical bytes of a thing begin with its name and the version of its
// form, and go on with its fields in the order of their type: numbers as 8
// bytes, little-endian, signed ones in two's complement and floats by their
// bits; digests, ids and challenges as they are; texts and lists after their
// length as a number; a bool as one byte.
const (
	reportForm  = "muster capability report 1\n"
	recipeForm  = "muster recipe 2\n"
	backendForm = "muster backend 1\n"
)

// encoder appends canonical bytes.
type encoder struct{ b []byte }

func (e *encoder) bytes(b []byte)    { e.b = append(e.b, b...) }
func (e *encoder) number(v uint64)   { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) signed(v int64)    { e.number(uint64(v)) }
func (e *encoder) float(v float64)   { e.number(math.Float64bits(v)) }
func (e *encoder) text(s string)     { e.number(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) digest(d [32]byte) { e.bytes(d[:]) }

func (e *encoder) flag(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// canonical is what a report's signature is over.
func (r *Report) canonical() []byte {
	e := encoder{b: []byte(reportForm)}
	e.number(uint64(r.Schema))
	e.binding(&r.Binding)
	e.digest(r.Challenge)
	e.number(r.Sequence)
	e.number(uint64(len(r.Checks)))
	for _, c := range r.Checks {
		e.text(c.Name)
		e.flag(c.Passed)
		e.float(c.Got)
		e.float(c.Limit)
	}
	e.signed(int64(r.Capacity.Context))
	e.signed(int64(r.Capacity.Slots))
	e.number(r.Capacity.ResidentBytes)
	e.signed(r.Speed.TokenMicros)
	e.signed(r.Speed.ChunkMicros)
	e.signed(int64(r.Speed.ChunkTokens))
	e.signed(int64(r.Age))
	return e.b
}

func (e *encoder) binding(b *Binding) {
	e.text(string(b.Purpose))
	e.bytes(b.Run[:])
	e.number(uint64(b.Attempt))
	e.text(b.Pool)
	e.number(b.Epoch)
	e.bytes(b.Orchestrator[:])
	e.bytes(b.Node[:])
	e.bytes(b.Boot[:])
	e.digest(b.Revision)
	e.signed(int64(b.Layers[0]))
	e.signed(int64(b.Layers[1]))
	e.signed(int64(b.Depth))
	e.digest(b.Slice)
	e.digest(b.Embedding)
	e.digest(b.Recipe)
	e.digest(b.Backend)
	e.flag(b.Referenced)
}
