package arena

import (
	"sync/atomic"
	"unsafe"
)

const (
	arenaMagic   = 0x414e455241525453 // "STRARENA" as the bytes lie
	ringMagic    = 0x474e495241525453 // "STRARING" as the bytes lie
	arenaVersion = 1

	// grain is what offsets are multiples of: file header and ring headers take
	// one grain each, rings begin on one.
	grain = 4096

	// line keeps what two processes write apart: two cache lines, since adjacent
	// ones are fetched together.
	line = 128
)

// fileHeader lies at offset 0 of the file. The owner writes it once, before it
// hands the file to anybody.
type fileHeader struct {
	magic   atomic.Uint64
	version atomic.Uint64
	size    atomic.Uint64 // bytes of the file
}

// ringHeader lies at the start of each leased range; the data follow a grain
// behind it. It holds no pointers, and nothing of it is used unchecked: the
// other process may be of another build or have gone mad.
type ringHeader struct {
	// Written by the owner before the place is told, checked at attach only.
	magic    atomic.Uint64
	ring     atomic.Uint64 // id
	offset   atomic.Uint64 // of this header
	capacity atomic.Uint64 // bytes of data, a power of two
	_        [line - 32]byte

	ends [2]endHeader // by End
}

// endHeader is one end's side of a ring. Its end alone writes it, with two
// exceptions: the other end takes asleep back when it rings, and the owner sets
// state at release.
type endHeader struct {
	cursor  atomic.Uint64 // bytes written or read so far, modulo 2^64
	records atomic.Uint64 // committed or done
	_       [line - 16]byte

	state atomic.Uint64 // ring id << stateBits | state bits
	_     [line - 8]byte

	asleep atomic.Uint64 // 1: ring me once your cursor reaches wakeAt
	wakeAt atomic.Uint64 // cursor of the other end
	_      [line - 16]byte
}

// The state of an end: an id of the ring, so that a compare-and-set on a ring
// that has been released and whose range is leased again must fail, and bits
// which are only ever added.
const (
	stateBits = 8

	attached uint64 = 1 << 0 // an end has taken it
	finished uint64 = 1 << 1 // producer: no byte follows
	detached uint64 = 1 << 2 // let go, or barred by the owner; for good
)

// stateOf is the state word of an end of the ring.
func stateOf(ring, bits uint64) uint64 { return ring<<stateBits | bits }

// overlay reads the memory at offset as a T. The caller has checked that it
// lies within, and offset is a multiple of the grain, which suffices for every
// atomic.
func overlay[T any](memory []byte, offset uint64) *T {
	var t T
	_ = memory[offset : offset+uint64(unsafe.Sizeof(t))]
	return (*T)(unsafe.Pointer(&memory[offset]))
}

// End is a side of a ring.
type End int

// The two ends of a ring.
const (
	ProducerEnd End = 0
	ConsumerEnd End = 1
)

func (e End) String() string {
	if e == ProducerEnd {
		return "producer"
	}
	return "consumer"
}

func (e End) other() End { return 1 - e }
