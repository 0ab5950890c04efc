package wire

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// words are the 4-byte numbers that payloads are made of.
type words interface{ int32 | float32 }

// bigEndian says that numbers in memory must be turned round on their way to
// and from the wire. Elsewhere memory is the wire form, and payloads of
// megabytes are copied as they lie.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// bytesOf is the memory of w.
func bytesOf[W words](w []W) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

// turn exchanges native and wire order of the 4-byte numbers in b, in place.
func turn(b []byte) {
	if bigEndian {
		reverseWords(b)
	}
}

func reverseWords(b []byte) {
	for ; len(b) >= 4; b = b[4:] {
		b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	}
}

func appendWords[W words](dst []byte, w []W) []byte {
	start := len(dst)
	dst = append(dst, bytesOf(w)...)
	turn(dst[start:])
	return dst
}

// copyWords fills w from the wire form in src, which has 4*len(w) bytes.
func copyWords[W words](w []W, src []byte) {
	b := bytesOf(w)
	copy(b, src)
	turn(b)
}

// sized returns s with length n, keeping its memory where that is enough. What
// the elements hold is not defined.
func sized[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return slices.Grow(s[:0], n)[:n]
}
