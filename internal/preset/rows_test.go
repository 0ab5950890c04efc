package preset

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// floats are of every size, zeros and subnormals too.
func floats() *rapid.Generator[float32] {
	return rapid.OneOf(
		rapid.Float32Range(-4, 4),
		rapid.Custom(func(t *rapid.T) float32 {
			bits := rapid.Uint32().Draw(t, "bits")
			if bits&0x7f000000 == 0x7f000000 {
				bits &^= 0x01000000 // what is not below Most, infinities and NaN become smaller
			}
			return math.Float32frombits(bits)
		}),
		rapid.Just(float32(0)),
	)
}

func TestAStoredFloatIsOffByNoMoreThanIsSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(floats(), 1, 40).Draw(t, "row")
		largest := 0.0
		for _, v := range row {
			largest = max(largest, math.Abs(float64(v)))
		}
		got := Stored(row, len(row))
		for i, v := range row {
			off := math.Abs(float64(got[i]) - float64(v))
			if most := max(math.Ldexp(math.Abs(float64(v)), -11), math.Ldexp(largest, -39), math.SmallestNonzeroFloat32); off > most {
				t.Fatalf("%g became %g beside %g: off by %g, at most %g", v, got[i], largest, off, most)
			}
		}
		if again := Stored(got, len(got)); !slices.Equal(again, got) {
			t.Fatalf("what was stored once is stored as something else: %v, %v", got, again)
		}
	})
}

// Every finite half is the nearest one to itself, and to what lies a little
// beside it.
func TestHalvesAreIEEE(t *testing.T) {
	for bits := range uint16(math.MaxUint16) {
		v, finite := unhalf(bits)
		if finite != (bits>>halfFraction&halfExponents != halfExponents) {
			t.Fatalf("%#04x: finite is %t", bits, finite)
		}
		if finite && half(v) != bits {
			t.Fatalf("%#04x is %g, which is stored as %#04x", bits, v, half(v))
		}
	}
	for want, v := range map[uint16]float64{
		0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: math.Ldexp(1, -24), 0x03ff: math.Ldexp(1023, -24),
		0x3c01: 1 + math.Ldexp(3, -12), // nearer to 1+2^-10 than to 1
		0x3c02: 1 + math.Ldexp(3, -11), // a tie goes to the even one
		0x0400: math.Ldexp(1, -14) - math.Ldexp(1, -26),
		0x4000: 2 - math.Ldexp(1, -13),
	} {
		if got := half(v); got != want {
			t.Errorf("%g is stored as %#04x, want %#04x", v, got, want)
		}
	}
}

func TestARowThatIsNotFiniteIsRefused(t *testing.T) {
	row := make([]float32, 2)
	good := appendRow(nil, []float32{1, -3})
	for name, change := range map[string]func([]byte){
		"infinity":              func(b []byte) { binary.LittleEndian.PutUint16(b[2:], 0x7c00) },
		"no number":             func(b []byte) { binary.LittleEndian.PutUint16(b[4:], 0x7e01) },
		"an exponent too large": func(b []byte) { binary.LittleEndian.PutUint16(b, 20000) },
	} {
		b := slices.Clone(good)
		change(b)
		if err := readRow(row, b); err == nil {
			t.Errorf("%s was read as %v", name, row)
		}
	}
	if err := readRow(row, good); err != nil || row[0] != 1 || row[1] != -3 {
		t.Errorf("a sound row was read as %v (%v)", row, err)
	}
}
