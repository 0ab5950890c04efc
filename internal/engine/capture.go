package engine

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// capture is the user data of the evaluation filter: which node of the graph it
// waits for and where the node's rows go. The filter in assembly knows these
// offsets. It is pinned while a context may call the filter.
type capture struct {
	want  [2]uint64      // 0: name of the node, padded with NUL
	mask  [2]uint64      // 16: which bytes of it count
	get   uintptr        // 32: ggml_backend_tensor_get
	rows  unsafe.Pointer // 40: room for limit rows of width floats
	width int64          // 48: floats a row
	limit int64          // 56: rows at most
	got   int64          // 64: rows copied by the last computation; -1 for a node of another shape
	hits  int64          // 72: nodes of that name seen in it
}

// newCapture waits for the node of that name, at most 15 bytes long, and pins
// itself with p.
func newCapture(name string, width, limit int, get uintptr, p *runtime.Pinner) (*capture, []float32) {
	var want, mask [16]byte
	copy(want[:15], name)
	for i := range len(name) + 1 {
		mask[i] = 0xff
	}
	rows := make([]float32, width*limit)
	c := &capture{get: get, rows: unsafe.Pointer(&rows[0]), width: int64(width), limit: int64(limit)}
	for i := range c.want {
		c.want[i] = binary.NativeEndian.Uint64(want[8*i:])
		c.mask[i] = binary.NativeEndian.Uint64(mask[8*i:])
	}
	p.Pin(&rows[0])
	p.Pin(c)
	return c, rows
}

// address is what llama.cpp hands back to the filter.
func (c *capture) address() uintptr { return uintptr(unsafe.Pointer(c)) }

// reset forgets what the last computation gave.
func (c *capture) reset() { c.got, c.hits = 0, 0 }

// check says what is wrong with what was captured, if n rows were to come.
func (c *capture) check(n int) error {
	if c.hits == 1 && c.got == int64(n) {
		return nil
	}
	return fmt.Errorf("captured %d rows from %d nodes, %d rows from one node belong", c.got, c.hits, n)
}

// evaluate is the evaluation callback in Go: llama.cpp asks (ask) whether the data
// of a node is wanted, and comes again once a wanted node is computed. The answer
// 0 then ends the computation. It does what the filter in assembly does.
func evaluate(tensor unsafe.Pointer, ask bool, c *capture) uintptr {
	if ask {
		name := (*[2]uint64)(unsafe.Add(tensor, tensorName))
		if name[0]&c.mask[0] == c.want[0] && name[1]&c.mask[1] == c.want[1] {
			return 1
		}
		return 0
	}
	c.hits++
	ne := (*[4]int64)(unsafe.Add(tensor, tensorNe))
	if *(*int32)(unsafe.Add(tensor, tensorType)) != 0 || ne[0] != c.width || ne[1] > c.limit || ne[2] != 1 || ne[3] != 1 {
		c.got = -1
		return 0
	}
	c.got = ne[1]
	purego.SyscallN(c.get, uintptr(tensor), uintptr(c.rows), 0, uintptr(4*c.width*c.got))
	return 0
}
