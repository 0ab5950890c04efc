package arena

import "math/bits"

// SizeFor is the size in bytes of an arena that has room for rings of these
// capacities at once.
func SizeFor(capacities ...int) int64 {
	size := int64(grain)
	for _, c := range capacities {
		p := Place{Capacity: 1 << bits.Len64(uint64(max(c, 1))-1)}
		size += int64(p.span())
	}
	return size
}
