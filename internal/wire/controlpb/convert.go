package controlpb

import (
	"time"

	"muster/internal/id"
	"muster/internal/wire"
)

// Node is the id in a field that Check has seen; none where it has no bytes.
func Node(b []byte) id.NodeID { return id.NodeID(fixed32(b)) }

// Boot is the id in a field that Check has seen; none where it has no bytes.
func Boot(b []byte) id.BootID { return id.BootID(fixed16(b)) }

// Run is the id in a field that Check has seen; none where it has no bytes.
func Run(b []byte) id.RunID { return id.RunID(fixed16(b)) }

// Edge is the id in a field that Check has seen; none where it has no bytes.
func Edge(b []byte) id.EdgeID { return id.EdgeID(fixed16(b)) }

// ID is an id as it is sent: its bytes, or nil for none.
func ID[T id.NodeID | id.BootID | id.RunID | id.EdgeID](v T) []byte {
	switch v := any(v).(type) {
	case id.NodeID:
		return bytesOf(v[:], v.IsZero())
	case id.BootID:
		return bytesOf(v[:], v.IsZero())
	case id.RunID:
		return bytesOf(v[:], v.IsZero())
	case id.EdgeID:
		return bytesOf(v[:], v.IsZero())
	}
	return nil
}

// Digest is the SHA-256 in a field that Check has seen; zero where it has no
// bytes.
func Digest(b []byte) [32]byte { return fixed32(b) }

// Sum is a SHA-256 as it is sent: its bytes, or nil for none.
func Sum(d [32]byte) []byte { return bytesOf(d[:], d == [32]byte{}) }

func bytesOf(b []byte, none bool) []byte {
	if none {
		return nil
	}
	return b
}

func fixed16(b []byte) (v [16]byte) {
	if len(b) == len(v) {
		copy(v[:], b)
	}
	return v
}

func fixed32(b []byte) (v [32]byte) {
	if len(b) == len(v) {
		copy(v[:], b)
	}
	return v
}

// Micros is a time as it is sent, in whole microseconds, rounded up so that no
// time becomes none.
func Micros(d time.Duration) int64 {
	micros := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		micros++
	}
	return micros
}

// Duration is a time that was sent in microseconds; the longest there is where
// it does not fit.
func Duration(micros int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(max(micros, -most), most)) * time.Microsecond
}

// LayersOf is a layer range [start,end) as it is sent.
func LayersOf(r [2]int) *Layers { return &Layers{Start: uint32(r[0]), End: uint32(r[1])} }

// Range is the layer range [start,end).
func (m *Layers) Range() [2]int { return [2]int{int(m.GetStart()), int(m.GetEnd())} }

// RecipeOf is a recipe as it is sent. Negative figures, which no recipe has,
// become too large ones, so that Check refuses them.
func RecipeOf(r wire.Recipe) *Recipe {
	return &Recipe{
		Context:        uint32(r.Context),
		Slots:          uint32(r.Slots),
		Chunk:          uint32(r.Chunk),
		Threads:        uint32(r.Threads),
		KvType:         r.KVType,
		FlashAttention: r.FlashAttention,
		Repack:         r.Repack,
		GpuLayers:      uint32(r.GPULayers),
		Deterministic:  r.Deterministic,
	}
}

// Wire is the recipe as workers are told it.
func (m *Recipe) Wire() wire.Recipe {
	return wire.Recipe{
		Context:        int(m.GetContext()),
		Slots:          int(m.GetSlots()),
		Chunk:          int(m.GetChunk()),
		Threads:        int(m.GetThreads()),
		KVType:         m.GetKvType(),
		FlashAttention: m.GetFlashAttention(),
		Repack:         m.GetRepack(),
		GPULayers:      int(m.GetGpuLayers()),
		Deterministic:  m.GetDeterministic(),
	}
}

// DevicesOf are a worker's devices as they are sent. Their words come from
// drivers, so what is no text in them is replaced.
func DevicesOf(devices []wire.Device) []*Device {
	var sent []*Device
	for _, d := range devices {
		sent = append(sent, &Device{
			Kind:             text(d.Kind, mostName),
			Name:             text(d.Name, mostName),
			Description:      text(d.Description, mostDetail),
			MemoryFreeBytes:  d.MemoryFree,
			MemoryTotalBytes: d.MemoryTotal,
		})
	}
	return sent
}

// Wire is the device as a worker told it.
func (m *Device) Wire() wire.Device {
	return wire.Device{
		Kind:        m.GetKind(),
		Name:        m.GetName(),
		Description: m.GetDescription(),
		MemoryFree:  m.GetMemoryFreeBytes(),
		MemoryTotal: m.GetMemoryTotalBytes(),
	}
}
