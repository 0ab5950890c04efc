package engine

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFirstNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	bad := []float32{nan, inf, -inf, math.Float32frombits(0xffc00001), math.Float32frombits(0x7f800001)}
	good := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
	for n := range 70 {
		x := make([]float32, n)
		for i := range x {
			x[i] = good[i%len(good)]
		}
		if i := firstNotFinite(x); i != -1 {
			t.Fatalf("%d values, all finite: %d", n, i)
		}
		for at := range x {
			for _, b := range bad {
				kept := x[at]
				x[at] = b
				if i := firstNotFinite(x); i != at {
					t.Fatalf("%v at %d of %d: found at %d", b, at, n, i)
				}
				x[at] = kept
			}
		}
	}
}

func TestFirstNotFiniteTakesAnyAlignment(t *testing.T) {
	x := make([]float32, 101)
	x[100] = float32(math.Inf(-1))
	if i := firstNotFinite(x[1:]); i != 99 {
		t.Errorf("found at %d", i)
	}
}

func FuzzFirstNotFinite(f *testing.F) {
	f.Add(uint64(1), uint16(33))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		r := rand.New(rand.NewPCG(seed, 0))
		x := make([]float32, n%300)
		want := -1
		for i := range x {
			x[i] = math.Float32frombits(r.Uint32())
			v := float64(x[i])
			if want < 0 && (math.IsNaN(v) || math.IsInf(v, 0)) {
				want = i
			}
		}
		if got := firstNotFinite(x); got != want {
			t.Errorf("found at %d, is at %d", got, want)
		}
	})
}

func BenchmarkFirstNotFinite(b *testing.B) {
	x := make([]float32, 512*4096)
	for i := range x {
		x[i] = float32(i)
	}
	b.SetBytes(int64(4 * len(x)))
	for b.Loop() {
		if firstNotFinite(x) >= 0 {
			b.Fatal("not finite")
		}
	}
}
