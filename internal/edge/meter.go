package edge

import (
	"sync/atomic"
	"time"
)

// Phase is what a pump is doing.
type Phase uint32

// The phases. Together with the time since the last progress they tell who
// owes: an idle pump waits for its source's next record, an inside one for the
// rest of a record, a passing one for its sink.
const (
	Unused  Phase = iota // no pump has begun
	Idle                 // between two records
	Inside               // reading one
	Passing              // writing one
	Ended                // the pump has returned
)

var phaseNames = [...]string{"unused", "idle", "inside a record", "passing a record on", "ended"}

func (p Phase) String() string { return phaseNames[p] }

// Meter counts what passes through one side of an edge. Its zero value is
// ready; it may be read at any time and from any goroutine.
type Meter struct {
	records, bytes atomic.Uint64
	last           atomic.Int64 // time of the last progress, from epoch
	phase          atomic.Uint32
}

// Figures are a Meter's at one moment.
type Figures struct {
	Records uint64        // passed on whole
	Bytes   uint64        // passed on, of records
	Phase   Phase         //
	Still   time.Duration // since the last byte was passed on, or since the pump began
}

// epoch is what times of progress count from; on the monotonic clock.
var epoch = time.Now()

// Read returns the figures now. They are read one after the other: records may
// lag behind bytes by what happens meanwhile.
func (m *Meter) Read() Figures {
	f := Figures{Records: m.records.Load(), Bytes: m.bytes.Load(), Phase: Phase(m.phase.Load())}
	if f.Phase != Unused {
		f.Still = time.Since(epoch) - time.Duration(m.last.Load())
	}
	return f
}

func (m *Meter) enter(p Phase) { m.phase.Store(uint32(p)) }

func (m *Meter) begin() {
	m.last.Store(int64(time.Since(epoch)))
	m.enter(Idle)
}

func (m *Meter) passed(n int) {
	m.bytes.Add(uint64(n))
	m.last.Store(int64(time.Since(epoch)))
}
