package gate_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"muster/internal/core/gate"
	"muster/internal/id"
)

var sizes = []int{10, 1_000, 10_000, 100_000}

func numbered(i int) (n id.NodeID, b id.BootID) {
	binary.LittleEndian.PutUint64(n[:], uint64(i)*0x9e3779b97f4a7c15+1)
	binary.LittleEndian.PutUint64(b[:], uint64(i)+1)
	return n, b
}

func members(count int) []gate.Member {
	all := make([]gate.Member, count)
	for i := range all {
		all[i].ID, _ = numbered(i)
	}
	return all
}

func full(count int) *gate.Gate {
	g := gate.New(gate.LAN())
	g.Step(gate.PoolDefined{Epoch: 1, Members: members(count)}, 0)
	for i := range count {
		n, b := numbered(i)
		g.Step(gate.NodeKnown{Node: n, Boot: b, Endpoint: "10.0.0.1:6878"}, 0)
		g.Step(gate.SwimSeen{Node: n, Boot: b, State: gate.SwimAlive, Incarnation: 1}, 0)
		g.Step(gate.NodeAvailable{Node: n, Boot: b, Attempt: 1}, 0)
		g.Step(gate.EndpointDialled{Node: n, Boot: b, Endpoint: "10.0.0.1:6878"}, 0)
		g.Step(gate.ContactMade{Node: n, Boot: b}, 0)
	}
	return g
}

// One event of the mix that a pool in churn sees: contacts, suspicions,
// refutations, faults and recoveries of nodes all over the pool.
func BenchmarkStep(b *testing.B) {
	for _, count := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			g := full(count)
			now := time.Duration(0)
			ids, boots := make([]id.NodeID, count), make([]id.BootID, count)
			for i := range count {
				ids[i], boots[i] = numbered(i)
			}
			stuck, stuckBoot := ids[0], boots[0]
			g.Step(gate.SwimSeen{Node: stuck, Boot: stuckBoot, State: gate.SwimDead, Incarnation: 1}, 0)
			incarnation := uint32(1)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				k := 1 + int(uint64(i)*0x9e3779b97f4a7c15>>33)%(count-1)
				now += time.Microsecond
				switch i % 8 {
				case 0:
					g.Step(gate.SwimSeen{Node: ids[k], Boot: boots[k], State: gate.SwimSuspect, Incarnation: incarnation}, now)
				case 1:
					incarnation++
					g.Step(gate.SwimSeen{Node: ids[k], Boot: boots[k], State: gate.SwimAlive, Incarnation: incarnation}, now)
				case 2:
					g.Step(gate.NodeFaulted{Node: ids[k], Boot: boots[k], Attempt: incarnation}, now)
				case 3:
					g.Step(gate.NodeAvailable{Node: ids[k], Boot: boots[k], Attempt: incarnation}, now)
				default:
					g.Step(gate.ContactMade{Node: ids[k], Boot: boots[k]}, now)
				}
			}
		})
	}
}

// A tick when nothing is due.
func BenchmarkTick(b *testing.B) {
	g := full(10_000)
	b.ReportAllocs()
	for range b.N {
		g.Step(gate.Tick{}, 1)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What a gate holds of a node, apart from the operator's own definition.
func BenchmarkMemory(b *testing.B) {
	for _, count := range sizes[1:] {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			for range b.N {
				before := heap()
				g := full(count)
				b.ReportMetric(float64(heap()-before)/float64(count), "B/node")
				runtime.KeepAlive(g)
			}
		})
	}
}

func TestAStepAllocatesNothingInChurn(t *testing.T) {
	g := full(1_000)
	n, b := numbered(7)
	stuck, stuckBoot := numbered(8)
	g.Step(gate.SwimSeen{Node: stuck, Boot: stuckBoot, State: gate.SwimDead, Incarnation: 1}, 0)
	incarnation := uint32(1)
	if got := testing.AllocsPerRun(1000, func() {
		g.Step(gate.SwimSeen{Node: n, Boot: b, State: gate.SwimSuspect, Incarnation: incarnation}, 1)
		incarnation++
		g.Step(gate.SwimSeen{Node: n, Boot: b, State: gate.SwimAlive, Incarnation: incarnation}, 1)
		g.Step(gate.ContactMade{Node: n, Boot: b}, 1)
		g.Step(gate.NodeFaulted{Node: n, Boot: b, Attempt: incarnation}, 1)
		g.Step(gate.NodeAvailable{Node: n, Boot: b, Attempt: incarnation + 1}, 1)
		g.Step(gate.Tick{}, 1)
		incarnation += 2
	}); got != 0 {
		t.Errorf("a round of events allocates %v times", got)
	}
}

// 100,000 nodes fit into 25 MB: a node takes 256 bytes at most.
func TestANodeIsSmall(t *testing.T) {
	const count, most = 10_000, 256
	least := uint64(1 << 40)
	for range 3 { // whatever else is allocated meanwhile counts too
		before := heap()
		g := full(count)
		if after := heap(); after > before {
			least = min(least, (after-before)/count)
		}
		runtime.KeepAlive(g)
	}
	if least > most {
		t.Errorf("a node takes %d bytes", least)
	}
}
