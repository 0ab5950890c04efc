package randmodel

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"

	"muster/internal/gguf"
)

// source gives the values of one tensor. They depend on the seed and the
// tensor's name alone, so that a layer's weights do not change with what
// stands before it.
type source struct{ rng *rand.PCG }

func newSource(seed uint64, tensor string) source {
	h := fnv.New64a()
	_, _ = io.WriteString(h, tensor)
	return source{rand.NewPCG(seed, h.Sum64())}
}

// normal is nearly normally distributed, with deviation 1: the sum of four
// uniform numbers.
func (s source) normal() float64 {
	r := s.rng.Uint64()
	sum := uint64(uint16(r)) + uint64(uint16(r>>16)) + uint64(uint16(r>>32)) + r>>48
	return (float64(sum)/65536 - 2) * math.Sqrt(3)
}

// fill writes a tensor row by row.
func (s source) fill(w io.Writer, info gguf.Info, d spread) error {
	size, _ := info.Type.RowSize(info.Dims[0])
	rows := uint64(1)
	for _, n := range info.Dims[1:] {
		rows *= n
	}
	row := make([]byte, size)
	for range rows {
		s.row(row, info.Type, d)
		if _, err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

func (s source) row(b []byte, t gguf.Type, d spread) {
	switch t {
	case gguf.F32:
		for ; len(b) > 0; b = b[4:] {
			binary.LittleEndian.PutUint32(b, math.Float32bits(float32(d.mean+d.deviation*s.normal())))
		}
	case gguf.F16:
		for ; len(b) > 0; b = b[2:] {
			binary.LittleEndian.PutUint16(b, half(d.mean+d.deviation*s.normal()))
		}
	case gguf.Q8_0: // a scale, 32 signed bytes: deviation of a byte is 73.9
		s.blocks(b, 34, half(d.deviation/73.9))
	case gguf.Q4_0: // a scale, 32 nibbles less 8: deviation of a nibble is 4.6
		s.blocks(b, 18, half(d.deviation/4.6))
	case gguf.Q4_K:
		s.blocksK(b, d.deviation)
	}
}

// blocks fills blocks of a scale and random bytes.
func (s source) blocks(b []byte, size int, scale uint16) {
	for ; len(b) > 0; b = b[size:] {
		binary.LittleEndian.PutUint16(b, scale)
		s.noise(b[2:size])
	}
}

// blocksK fills Q4_K: a scale, a scale of minima, 12 bytes of 6-bit scales and
// minima, 256 nibbles. A value is scale*x*nibble - scale of minima*y, where x
// and y are 31.5 in the mean; the scales are chosen so that its mean is 0.
func (s source) blocksK(b []byte, deviation float64) {
	const size = 144
	for ; len(b) > 0; b = b[size:] {
		binary.LittleEndian.PutUint16(b, half(deviation/250))
		binary.LittleEndian.PutUint16(b[2:], half(deviation/250*7.5))
		s.noise(b[4:size])
	}
}

func (s source) noise(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, s.rng.Uint64())
	}
	for rest := s.rng.Uint64(); len(b) > 0; b, rest = b[1:], rest>>8 {
		b[0] = byte(rest)
	}
}

// half is the IEEE half-precision number next to v towards zero. Values here
// are far below its largest.
func half(v float64) uint16 {
	bits := math.Float32bits(float32(v))
	sign := uint16(bits>>16) & 0x8000
	exponent := int(bits>>23&0xff) - 127 + 15
	fraction := bits & 0x7fffff
	switch {
	case exponent < -10:
		return sign
	case exponent <= 0:
		return sign | uint16((fraction|0x800000)>>uint(14-exponent))
	}
	return sign | uint16(exponent)<<10 | uint16(fraction>>13)
}
