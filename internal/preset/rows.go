package preset

import (
	"encoding/binary"
	"errors"
	"math"
)

// A row is stored as a power of two and a half-precision float each:
//
//	exponent i16 │ width x f16        float = f16 x 2^exponent
//
// with the exponent for which the largest of the row lies in [2^14, 2^15). So
// half precision's narrow range does not matter, and each float is off by at
// most 2^-11 of itself or 2^-39 of the row's largest.
const (
	exponentSize = 2
	topExponent  = 15 // of the row's largest, as math.Frexp counts
)

// Most is the magnitude which floats that are stored stay below: half of what
// single precision holds, so that none is rounded up to infinity.
const Most = 1 << 127

// rowSize is the bytes of a stored row of width floats.
func rowSize(width int) int64 { return exponentSize + 2*int64(width) }

// appendRow appends a row, whose floats are below Most, as it is stored.
func appendRow(dst []byte, row []float32) []byte {
	largest := 0.0
	for _, v := range row {
		largest = max(largest, math.Abs(float64(v)))
	}
	exponent := 0
	if largest > 0 {
		_, exponent = math.Frexp(largest)
		exponent -= topExponent
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(int16(exponent)))
	for _, v := range row {
		dst = binary.LittleEndian.AppendUint16(dst, half(math.Ldexp(float64(v), -exponent)))
	}
	return dst
}

var errRow = errors.New("a row holds a number that is not finite")

// readRow fills row from its stored form in b, which has rowSize bytes.
func readRow(row []float32, b []byte) error {
	exponent := int(int16(binary.LittleEndian.Uint16(b)))
	for i := range row {
		v, finite := unhalf(binary.LittleEndian.Uint16(b[exponentSize+2*i:]))
		row[i] = float32(math.Ldexp(v, exponent))
		if !finite || math.IsInf(float64(row[i]), 0) {
			return errRow
		}
	}
	return nil
}

// Half precision (IEEE 754 binary16): a sign, 5 bits of exponent with a bias of
// 15, 10 bits of fraction.
const (
	halfSign      = 1 << 15
	halfFraction  = 10
	halfBias      = 15
	halfSmallest  = 24 // the smallest above 0 is 2^-24
	halfLeast     = -14
	halfExponents = 31 // this exponent is infinity or no number
)

// half rounds v, which is below 65504 in magnitude, to the nearest, ties to
// even.
func half(v float64) uint16 {
	bits := uint16(0)
	if math.Signbit(v) {
		bits, v = halfSign, -v
	}
	if v < math.Ldexp(1, halfLeast) {
		return bits | uint16(math.RoundToEven(math.Ldexp(v, halfSmallest)))
	}
	fraction, exponent := math.Frexp(v) // fraction in [1/2, 1)
	whole := uint16(math.RoundToEven(math.Ldexp(fraction, halfFraction+1)))
	return bits | (uint16(exponent-1+halfBias)<<halfFraction + whole - 1<<halfFraction)
}

func unhalf(bits uint16) (v float64, finite bool) {
	exponent, fraction := int(bits>>halfFraction&halfExponents), float64(bits&(1<<halfFraction-1))
	if exponent == 0 {
		v = math.Ldexp(fraction, -halfSmallest)
	} else {
		v = math.Ldexp(fraction+1<<halfFraction, exponent-halfBias-halfFraction)
	}
	if bits&halfSign != 0 {
		v = -v
	}
	return v, exponent != halfExponents
}

// Stored returns rows of width floats, all below Most, as they are when they
// have been stored and read again.
func Stored(rows []float32, width int) []float32 {
	out := make([]float32, len(rows))
	var b []byte
	for at := 0; at+width <= len(rows); at += width {
		b = appendRow(b[:0], rows[at:at+width])
		_ = readRow(out[at:at+width], b) // rows below Most are finite again
	}
	return out
}
