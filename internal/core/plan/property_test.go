package plan_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/core/plan"
	"muster/internal/fault"
	"muster/internal/id"
)

// brute looks at every way to cut and every node for every stage.
type brute struct {
	m     plan.Model
	nodes []plan.Node
	c     plan.Constraints

	found   bool
	slowest uint64
	stages  int
	total   uint64
	mean    uint64
	usedNow []id.NodeID
}

func (b *brute) time(n plan.Node, start, end int) (uint64, bool) {
	var weights uint64
	for _, l := range b.m.LayerBytes[start:end] {
		weights += l
	}
	read := weights
	if end == len(b.m.LayerBytes) {
		read += b.m.HeadBytes
		weights += b.m.HeadBytes
	}
	if start == 0 {
		weights += b.m.EmbeddingBytes
	}
	kv := b.m.KVBytes * uint64(end-start) * uint64(b.c.Context*b.c.Slots)
	usable := n.Memory - n.Memory*uint64(b.c.ReservePerMil)/1000
	return n.LayerNanos * read / b.mean, weights+kv+b.m.ComputeBytes <= usable
}

func (b *brute) pinOf(n id.NodeID) *plan.Pin {
	for i := range b.c.Pins {
		if b.c.Pins[i].Node == n {
			return &b.c.Pins[i]
		}
	}
	return nil
}

func (b *brute) walk(cut int, slowest, total uint64) {
	if cut == len(b.m.Cuts)-1 {
		stages := len(b.usedNow)
		for _, p := range b.c.Pins {
			if !slices.Contains(b.usedNow, p.Node) {
				return
			}
		}
		if stages < b.c.Least || b.c.Most > 0 && stages > b.c.Most {
			return
		}
		if !b.found || slowest < b.slowest || slowest == b.slowest && (stages < b.stages || stages == b.stages && total < b.total) {
			b.found, b.slowest, b.stages, b.total = true, slowest, stages, total
		}
		return
	}
	for _, n := range b.nodes {
		if slices.Contains(b.usedNow, n.ID) {
			continue
		}
		for to := cut + 1; to < len(b.m.Cuts); to++ {
			start, end := b.m.Cuts[cut], b.m.Cuts[to]
			if p := b.pinOf(n.ID); p != nil && (p.Start != start || p.End != end) {
				continue
			}
			t, fits := b.time(n, start, end)
			if !fits {
				continue
			}
			b.usedNow = append(b.usedNow, n.ID)
			b.walk(to, max(slowest, t), total+t)
			b.usedNow = b.usedNow[:len(b.usedNow)-1]
		}
	}
}

func draw(t *rapid.T) (plan.Model, []plan.Node, plan.Constraints) {
	small := func(low, high int, name string) uint64 { return uint64(rapid.IntRange(low, high).Draw(t, name)) }
	m := plan.Model{
		EmbeddingBytes: small(0, 30, "embedding"), HeadBytes: small(0, 30, "head"), KVBytes: small(0, 3, "kv"), ComputeBytes: small(0, 5, "compute"),
		Cuts: []int{0}, CutRule: "some",
	}
	layers := rapid.IntRange(1, 6).Draw(t, "layers")
	for i := range layers {
		m.LayerBytes = append(m.LayerBytes, small(1, 20, "layer"))
		if i > 0 && rapid.IntRange(0, 4).Draw(t, "cut") > 0 {
			m.Cuts = append(m.Cuts, i)
		}
	}
	m.Cuts = append(m.Cuts, layers)
	var nodes []plan.Node
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		nodes = append(nodes, plan.Node{
			ID: nodeID(string(rune('a' + i))), Memory: small(10, 120, "memory"), LayerNanos: small(1, 50, "nanos") * 100, Threads: 1,
		})
	}
	c := plan.Constraints{Context: 1 + int(small(0, 3, "context")), Slots: 1 + int(small(0, 1, "slots")), ReservePerMil: int(small(0, 300, "reserve"))}
	c.Least = min(int(small(0, 3, "least")), len(nodes), len(m.Cuts)-1)
	if most := int(small(0, 4, "most")); most >= c.Least {
		c.Most = most
	}
	if rapid.IntRange(0, 2).Draw(t, "pins") == 0 {
		n := rapid.SampledFrom(nodes).Draw(t, "pinned")
		from := rapid.IntRange(0, len(m.Cuts)-2).Draw(t, "from")
		to := rapid.IntRange(from+1, len(m.Cuts)-1).Draw(t, "to")
		c.Pins = []plan.Pin{{Node: n.ID, Start: m.Cuts[from], End: m.Cuts[to]}}
	}
	return m, nodes, c
}

// The plan is as good as the best of all plans, holds in memory, on allowed
// cuts, covers every layer once; and there is a plan if and only if one exists.
func TestNoPlanIsBetter(t *testing.T) {
	placed, short := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m, nodes, c := draw(t)
		b := &brute{m: m, nodes: nodes, c: c}
		var sum uint64
		for _, l := range m.LayerBytes {
			sum += l
		}
		b.mean = max(sum/uint64(len(m.LayerBytes)), 1)
		b.walk(0, 0, 0)
		p, err := plan.Place(m, nodes, c)
		if err != nil {
			short++
			if b.found || !errors.Is(err, fault.PlanMemoryShort) {
				t.Fatalf("%v, but there is a plan: %v", err, b.found)
			}
			return
		}
		placed++
		if !b.found {
			t.Fatalf("a plan where there is none: %+v", p)
		}
		verify(t, b, p)
	})
	if placed == 0 || short == 0 {
		t.Errorf("%d placed, %d short", placed, short)
	}
}

func verify(t *rapid.T, b *brute, p plan.Plan) {
	at := 0
	var slowest, total uint64
	seen := map[id.NodeID]bool{}
	for i, s := range p.Stages {
		k := slices.IndexFunc(b.nodes, func(n plan.Node) bool { return n.ID == s.Node })
		time, fits := b.time(b.nodes[k], s.Start, s.End)
		if s.Start != at || s.End <= s.Start || seen[s.Node] || !fits || time != s.Nanos || s.Reason == "" {
			t.Fatalf("stage %d is unsound: %+v", i, s)
		}
		if s.WeightBytes+s.KVBytes+s.ComputeBytes > s.UsableBytes {
			t.Fatalf("stage %d does not fit: %+v", i, s)
		}
		if _, allowed := slices.BinarySearch(b.m.Cuts, s.End); !allowed {
			t.Fatalf("stage %d ends at %d", i, s.End)
		}
		if pin := b.pinOf(s.Node); pin != nil && (pin.Start != s.Start || pin.End != s.End) {
			t.Fatalf("stage %d breaks %+v", i, pin)
		}
		at, seen[s.Node] = s.End, true
		slowest, total = max(slowest, time), total+time
	}
	if at != len(b.m.LayerBytes) || len(p.Stages)+len(p.Unused) != len(b.nodes) || p.Stages[p.Slowest].Nanos != slowest {
		t.Fatalf("%+v does not cover the model or forgets a node", p)
	}
	if slowest != b.slowest || len(p.Stages) != b.stages || total != b.total {
		t.Fatalf("slowest %d in %d stages, %d in all; there is %d in %d, %d in all", slowest, len(p.Stages), total, b.slowest, b.stages, b.total)
	}
}

// An offer keeps no plan from being made. It is a stage or released, never both,
// and those that are honoured are so by the best plan that has them as pins.
func TestOffersAreHonouredOrReleased(t *testing.T) {
	kept, released := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m, nodes, c := draw(t)
		bare, bareErr := plan.Place(m, nodes, c)
		offering := rapid.Permutation(nodes).Draw(t, "offering")
		for _, n := range offering[:rapid.IntRange(1, len(nodes)).Draw(t, "offers")] {
			from := rapid.IntRange(0, len(m.Cuts)-2).Draw(t, "from")
			to := rapid.IntRange(from+1, len(m.Cuts)-1).Draw(t, "to")
			c.Offers = append(c.Offers, plan.Pin{Node: n.ID, Start: m.Cuts[from], End: m.Cuts[to]})
		}
		p, err := plan.Place(m, nodes, c)
		if (err == nil) != (bareErr == nil) {
			t.Fatalf("%v with offers, %v without", err, bareErr)
		}
		if err != nil {
			return
		}
		with := c
		with.Pins, with.Offers = slices.Clone(c.Pins), nil
		for _, o := range c.Offers {
			stood := slices.ContainsFunc(p.Stages, func(s plan.Stage) bool { return s.Node == o.Node && s.Start == o.Start && s.End == o.End })
			gone := slices.ContainsFunc(p.Released, func(r plan.Released) bool { return r.Pin == o && r.Reason != "" })
			if !stood && !gone {
				t.Fatalf("%+v is forgotten: %+v", o, p)
			}
			if !gone && !slices.Contains(c.Pins, o) {
				kept++
				with.Pins = append(with.Pins, o)
			}
		}
		released += len(p.Released)
		q, err := plan.Place(m, nodes, with)
		if err != nil || q.Stages[q.Slowest].Nanos != p.Stages[p.Slowest].Nanos || len(q.Stages) != len(p.Stages) {
			t.Fatalf("%+v\nby pins %+v, %v", p, q, err)
		}
		if len(with.Pins) == len(c.Pins) && !reflect.DeepEqual(bare.Stages, p.Stages) {
			t.Fatalf("no offer is honoured, and yet the plan is another: %+v, %+v", bare, p)
		}
	})
	if kept == 0 || released == 0 {
		t.Errorf("%d kept, %d released", kept, released)
	}
}

// The order in which the nodes come does not matter.
func TestThePlanIsTheSameInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, nodes, c := draw(t)
		if rapid.Bool().Draw(t, "many") {
			for i := range 12 {
				nodes = append(nodes, plan.Node{ID: id.NodeID{byte(i + 1)}, Memory: uint64(20 + i%3*10), LayerNanos: uint64(i%4) * 500, Threads: 1 + i%2})
			}
		}
		p, err := plan.Place(m, nodes, c)
		q, again := plan.Place(m, rapid.Permutation(nodes).Draw(t, "order"), c)
		if (err == nil) != (again == nil) || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v, %v\nbut %+v, %v", p, err, q, again)
		}
	})
}

// Of many nodes the stages follow one order; the plan is sound, and no slower
// than what the same order allows to a few of them.
func TestManyNodesArePlacedSoundly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, few, c := draw(t)
		c.Pins, c.Least, c.Most = nil, 0, 0
		nodes := slices.Clone(few)
		for i := range rapid.IntRange(10, 90).Draw(t, "more") {
			nodes = append(nodes, plan.Node{ID: id.NodeID{1, byte(i + 1)}, Memory: 5, LayerNanos: 10_000, Threads: 1})
		}
		p, err := plan.Place(m, nodes, c)
		q, fewErr := plan.Place(m, few, plan.Constraints{Context: c.Context, Slots: c.Slots, ReservePerMil: c.ReservePerMil, Most: 1})
		if err != nil {
			if fewErr == nil {
				t.Fatalf("one node is enough, but of many: %v", err)
			}
			return
		}
		at := 0
		for _, s := range p.Stages {
			if s.Start != at || s.WeightBytes+s.KVBytes+s.ComputeBytes > s.UsableBytes {
				t.Fatalf("unsound: %+v", s)
			}
			at = s.End
		}
		if at != len(m.LayerBytes) || len(p.Stages)+len(p.Unused) != len(nodes) {
			t.Fatalf("%+v does not cover the model or forgets a node", p)
		}
		if fewErr == nil && p.Stages[p.Slowest].Nanos > q.Stages[0].Nanos {
			t.Fatalf("slower than on one node: %+v", p)
		}
	})
}

// Arbitrary figures never crash the planner: they are placed or refused.
func FuzzPlace(f *testing.F) {
	f.Add(uint64(1<<40), uint64(1<<30), uint64(4096), uint64(1<<50), uint64(1<<60), uint64(1<<40), 1<<20, 4, 3, 7)
	f.Fuzz(func(t *testing.T, layer, head, kv, compute, memory, nanos uint64, context, slots, cut, reserve int) {
		m := plan.Model{LayerBytes: slices.Repeat([]uint64{layer}, 9), HeadBytes: head, EmbeddingBytes: head, KVBytes: kv, ComputeBytes: compute, Cuts: []int{0, cut, 9}}
		nodes := []plan.Node{{ID: nodeID("a"), Memory: memory, LayerNanos: nanos}, {ID: nodeID("b"), Memory: memory / 3, Threads: slots}}
		p, err := plan.Place(m, nodes, plan.Constraints{Context: context, Slots: slots, ReservePerMil: reserve})
		if err == nil && (len(p.Stages) == 0 || p.Stages[len(p.Stages)-1].End != 9) {
			t.Fatalf("%+v", p)
		}
	})
}
