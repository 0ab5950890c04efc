package gate_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/gate"
	"muster/internal/id"
)

var (
	names = []string{"a", "b", "c"}
	steps = []time.Duration{0, 0, 0, 1, 50 * time.Millisecond, beat, beat, 400 * time.Millisecond, 900 * time.Millisecond, time.Second, 1200 * time.Millisecond}
)

// anyEvent draws an event of the small world of three nodes with three boots.
func anyEvent(t *rapid.T, g *gate.Gate) gate.Event {
	n := rapid.SampledFrom([]string{"a", "a", "b", "b", "c", "z"}).Draw(t, "node")
	b := rapid.SampledFrom([]string{"1", "1", "1", "2", "3", ""}).Draw(t, "boot")
	address := rapid.SampledFrom([]string{n + ":1", n + ":1", n + ":1", "x:2", ""}).Draw(t, "address")
	small := uint32(rapid.IntRange(0, 3).Draw(t, "number"))
	nodeID, bootID := node(n), boot(n, b)
	if b == "" {
		bootID = id.BootID{}
	}
	switch rapid.IntRange(0, 15).Draw(t, "kind") {
	case 0:
		return gate.NodeKnown{Node: nodeID, Boot: bootID, Endpoint: address}
	case 1, 2:
		state := gate.SwimState(rapid.SampledFrom([]int{0, 1, 1, 1, 2, 2, 3, 4}).Draw(t, "state"))
		return gate.SwimSeen{Node: nodeID, Boot: bootID, State: state, Incarnation: small}
	case 3:
		return gate.NodeAvailable{Node: nodeID, Boot: bootID, Attempt: small}
	case 4:
		return gate.NodeFaulted{Node: nodeID, Boot: bootID, Attempt: small}
	case 5:
		e := gate.EndpointDialled{Node: nodeID, Boot: bootID, Endpoint: address}
		if small == 0 {
			e.Fault = anyFault
		}
		return e
	case 6:
		return gate.ContactMade{Node: nodeID, Boot: bootID, Age: rapid.SampledFrom(steps).Draw(t, "age")}
	case 7:
		return gate.NonceAnswered{Node: nodeID, Boot: bootID, Round: uint64(rapid.IntRange(0, 6).Draw(t, "round"))}
	case 8:
		return gate.HolderAnswered{Ask: uint64(small), Boot: bootID}
	case 9:
		return gate.HolderGone{Ask: uint64(small), Boot: bootID}
	case 10:
		return gate.HealthSeen{Bad: small == 0}
	case 11:
		return anyPool(t, g.Epoch()+uint64(small)/2)
	case 12:
		return gate.RunEnded{Run: run(fmt.Sprint("r", small))}
	case 13:
		return gate.FormationAsked{}
	case 14:
		return gate.ViewRead{}
	default:
		return gate.Tick{}
	}
}

func anyPool(t *rapid.T, epoch uint64) gate.PoolDefined {
	e := gate.PoolDefined{Epoch: epoch}
	for _, n := range strings.Fields(rapid.SampledFrom([]string{"a", "a b", "a b c", "b c", "a b", "", "a self", "b b"}).Draw(t, "pool")) {
		e.Members = append(e.Members, gate.Member{ID: node(n), Name: n})
	}
	return e
}

// act does one thing: an arbitrary event, or one of the runs of events without
// which chance would seldom reach readiness.
func (w *watched) act(t *rapid.T) {
	w.now += rapid.SampledFrom(steps).Draw(t, "later")
	switch rapid.IntRange(0, 9).Draw(t, "act") {
	case 0:
		for _, m := range w.gate.Members() {
			b := bootOf(m.Boot)
			if b == "-" {
				b = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "fresh")
			}
			w.bringUp(nameOf(m.Node) + "/" + b)
		}
	case 1, 2:
		w.calm(w.now + rapid.SampledFrom(steps).Draw(t, "calm"))
	case 3:
		w.calm(w.now + w.o.c.Window + beat)
		w.answerAll()
	case 4:
		w.answerAll()
	case 5, 6:
		e := gate.CommitAsked{Run: run(fmt.Sprint("r", rapid.IntRange(0, 3).Draw(t, "run"))), Epoch: w.gate.Epoch(), Round: w.o.round}
		for _, m := range w.gate.Members() {
			if len(e.Nodes) == 0 || rapid.Bool().Draw(t, "needed") {
				e.Nodes = append(e.Nodes, m)
			}
		}
		if w.faults[e.Run] == 0 { // a run id is used once
			w.step(e)
		}
	default:
		w.step(anyEvent(t, w.gate))
	}
}

func (w *watched) answerAll() {
	for _, m := range w.gate.Members() {
		w.step(gate.NonceAnswered{Node: m.Node, Boot: m.Boot, Round: w.o.round})
	}
}

func anyConfig(t *rapid.T) gate.Config {
	c := config()
	c.LossPolicy = gate.Policy(rapid.IntRange(0, 1).Draw(t, "policy"))
	c.Formation = rapid.SampledFrom([]time.Duration{0, 0, 3 * time.Second, 10 * time.Second}).Draw(t, "formation")
	c.Rival = 3 * time.Second
	return c
}
