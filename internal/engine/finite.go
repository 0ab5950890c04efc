package engine

import "unsafe"

// firstNotFinite returns the index of the first NaN or infinity, -1 if there is
// none. It looks at the exponents alone, two floats a step: a NaN or an infinity
// has all ones there, and adding one to the exponent's lowest bit then carries into
// the sign's place.
func firstNotFinite(x []float32) int {
	const (
		exponents = 0x7f800000_7f800000
		one       = 0x00800000_00800000
		carried   = 0x80000000_80000000
		step      = 16 // floats
	)
	i := 0
	for ; i+step <= len(x); i += step {
		p := (*[step / 2]uint64)(unsafe.Pointer(&x[i]))
		hit := (p[0]&exponents + one) | (p[1]&exponents + one) | (p[2]&exponents + one) | (p[3]&exponents + one) |
			(p[4]&exponents + one) | (p[5]&exponents + one) | (p[6]&exponents + one) | (p[7]&exponents + one)
		if hit&carried != 0 {
			break
		}
	}
	for ; i < len(x); i++ {
		if v := x[i]; v-v != 0 {
			return i
		}
	}
	return -1
}
