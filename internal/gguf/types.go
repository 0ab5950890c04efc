package gguf

import (
	"fmt"
	"math/bits"
)

// Type is a ggml tensor type, with the numbers of ggml.h.
type Type uint32

// The types which Muster itself writes.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q8_0 Type = 8
	Q4_K Type = 12
)

type layout struct {
	name   string
	values uint64 // values in a block
	bytes  uint64 // bytes of a block
}

// layouts are those of ggml_blck_size and ggml_type_size in llama.cpp 0.4.0.
// Types it has removed are absent, so that they are refused by name.
var layouts = map[Type]layout{
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	Q4_0: {"Q4_0", 32, 18},
	3:    {"Q4_1", 32, 20},
	6:    {"Q5_0", 32, 22},
	7:    {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34},
	9:    {"Q8_1", 32, 36},
	10:   {"Q2_K", 256, 84},
	11:   {"Q3_K", 256, 110},
	Q4_K: {"Q4_K", 256, 144},
	13:   {"Q5_K", 256, 176},
	14:   {"Q6_K", 256, 210},
	15:   {"Q8_K", 256, 292},
	16:   {"IQ2_XXS", 256, 66},
	17:   {"IQ2_XS", 256, 74},
	18:   {"IQ3_XXS", 256, 98},
	19:   {"IQ1_S", 256, 50},
	20:   {"IQ4_NL", 32, 18},
	21:   {"IQ3_S", 256, 110},
	22:   {"IQ2_S", 256, 82},
	23:   {"IQ4_XS", 256, 136},
	24:   {"I8", 1, 1},
	25:   {"I16", 1, 2},
	26:   {"I32", 1, 4},
	27:   {"I64", 1, 8},
	28:   {"F64", 1, 8},
	29:   {"IQ1_M", 256, 56},
	30:   {"BF16", 1, 2},
	34:   {"TQ1_0", 256, 54},
	35:   {"TQ2_0", 256, 66},
	39:   {"MXFP4", 32, 17},
	40:   {"NVFP4", 64, 36},
	41:   {"Q1_0", 128, 18},
	42:   {"Q2_0", 64, 18},
}

func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("%d, which is not known", uint32(t))
}

// Known reports whether rows of the type have a known size.
func (t Type) Known() bool { _, ok := layouts[t]; return ok }

// Block returns how many values of the type are stored together; 0 for an
// unknown type.
func (t Type) Block() int { return int(layouts[t].values) }

// RowSize returns the bytes of a row of so many values. It is false for an
// unknown type, for a row that is not a multiple of Block and for one whose
// size does not fit in 63 bits.
func (t Type) RowSize(values uint64) (int64, bool) {
	l, ok := layouts[t]
	if !ok || values%l.values != 0 {
		return 0, false
	}
	return product(values/l.values, l.bytes)
}

// product is a*b where that fits in 63 bits.
func product(a, b uint64) (int64, bool) {
	high, low := bits.Mul64(a, b)
	if high != 0 || low>>63 != 0 {
		return 0, false
	}
	return int64(low), true
}
