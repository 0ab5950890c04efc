package gate_test

import (
	"encoding/binary"
	"testing"
	"time"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/id"
)

var anyFault = fault.New(fault.InternalUnexpected, "test")

// decode reads one event of arbitrary bytes, and the time that passes before it.
func decode(b []byte) (e gate.Event, later time.Duration, rest []byte) {
	var w [12]byte
	n := copy(w[:], b)
	nodeID, bootID, number := id.NodeID{w[1] % 4}, id.BootID{w[2] % 4}, uint32(w[3]%8)
	later = time.Duration(binary.LittleEndian.Uint32(w[4:8])) * time.Duration(1+int(w[8])%4)
	var f *fault.Fault
	if w[9]%4 == 0 {
		f = anyFault
	}
	address := []string{"", "x:1", "y:2", "z:3"}[w[10]%4]
	switch w[0] % 16 {
	case 0:
		p := gate.PoolDefined{Epoch: uint64(w[3])}
		for i := range w[1] % 5 {
			p.Members = append(p.Members, gate.Member{ID: id.NodeID{w[2+i] % 5}})
		}
		e = p
	case 1:
		e = gate.NodeKnown{Node: nodeID, Boot: bootID, Endpoint: address}
	case 2:
		e = gate.SwimSeen{Node: nodeID, Boot: bootID, State: gate.SwimState(w[11]), Incarnation: number}
	case 3:
		e = gate.NodeAvailable{Node: nodeID, Boot: bootID, Attempt: number}
	case 4:
		e = gate.NodeFaulted{Node: nodeID, Boot: bootID, Attempt: number, Fault: f}
	case 5:
		e = gate.EndpointDialled{Node: nodeID, Boot: bootID, Endpoint: address, Fault: f}
	case 6:
		e = gate.ContactMade{Node: nodeID, Boot: bootID, Age: time.Duration(int8(w[11])) * 50 * time.Millisecond}
	case 7:
		e = gate.NonceAnswered{Node: nodeID, Boot: bootID, Round: uint64(number)}
	case 8:
		e = gate.HolderAnswered{Ask: uint64(number), Boot: bootID}
	case 9:
		e = gate.HolderGone{Ask: uint64(number), Boot: bootID}
	case 10:
		e = gate.ViewRead{}
	case 11:
		e = gate.HealthSeen{Bad: w[3]%2 == 0}
	case 12:
		e = gate.CommitAsked{Run: id.RunID{w[3] % 4}, Epoch: uint64(w[4]), Round: uint64(w[5] % 8), Nodes: []gate.Booted{{Node: nodeID, Boot: bootID}}}
	case 13:
		e = gate.RunEnded{Run: id.RunID{w[3] % 4}}
	case 14:
		e = gate.FormationAsked{}
	case 15:
		e = gate.Tick{}
	}
	return e, later, b[n:]
}

// 30. Arbitrary facts never crash the gate, and blockers are empty if and only
// if it is ready.
func FuzzStep(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x0a"))
	f.Add([]byte("\x02\x01\x01\x01\xff\xff\xff\xff\x03\x00\x01\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := watch(t, config())
		for steps := 0; len(b) > 0 && steps < 200; steps++ {
			e, later, rest := decode(b)
			b = rest
			w.now += later
			if c, ok := e.(gate.CommitAsked); ok && w.faults[c.Run] > 0 {
				continue // a run id is used once
			}
			w.step(e)
		}
		w.check()
	})
}
