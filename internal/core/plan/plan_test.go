package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"muster/internal/core/plan"
	"muster/internal/fault"
	"muster/internal/id"
)

const mib = 1 << 20

func nodeID(name string) (n id.NodeID) {
	copy(n[:], name)
	return n
}

// The transcripts read "key=value" words. Bytes are in MiB, speeds in
// microseconds a layer:
//
//	place layers=8 each=10 embedding=5 head=5 kv=1 compute=2 context=100 slots=1 step=1
//	a memory=100 us=500 threads=4
//	pin a 0:4
//	offer b 4:8
//
// kv is in KiB a layer and token; step is the period of allowed cuts.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m, nodes, c := input(t, d)
			p, err := plan.Place(m, nodes, c)
			if err != nil {
				return err.Error()
			}
			var b strings.Builder
			for _, s := range p.Stages {
				fmt.Fprintf(&b, "%s [%d,%d): %s\n", s.Name, s.Start, s.End, s.Reason)
			}
			for _, u := range p.Unused {
				fmt.Fprintf(&b, "%s unused: %s\n", u.Name, u.Reason)
			}
			for _, r := range p.Released {
				fmt.Fprintf(&b, "%s's offer of [%d,%d) released: %s\n", r.Name, r.Start, r.End, r.Reason)
			}
			return b.String()
		})
	})
}

func input(t *testing.T, d *datadriven.TestData) (plan.Model, []plan.Node, plan.Constraints) {
	t.Helper()
	num := func(key string, otherwise int) int {
		for _, a := range d.CmdArgs {
			if a.Key == key {
				n, err := strconv.Atoi(a.Vals[0])
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return n
			}
		}
		return otherwise
	}
	m := plan.Model{
		Architecture: "llama", EmbeddingBytes: uint64(num("embedding", 0)) * mib, HeadBytes: uint64(num("head", 0)) * mib,
		KVBytes: uint64(num("kv", 0)) << 10, ComputeBytes: uint64(num("compute", 0)) * mib, CutRule: fmt.Sprintf("multiples of %d", num("step", 1)),
	}
	for range num("layers", 0) {
		m.LayerBytes = append(m.LayerBytes, uint64(num("each", 10))*mib)
	}
	for at := 0; at < num("layers", 0); at += num("step", 1) {
		m.Cuts = append(m.Cuts, at)
	}
	m.Cuts = append(m.Cuts, num("layers", 0))
	c := plan.Constraints{
		Context: num("context", 1), Slots: num("slots", 1), ReservePerMil: num("reserve", 0), Least: num("least", 0), Most: num("most", 0),
	}
	var nodes []plan.Node
	for _, line := range strings.Split(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "pin" || words[0] == "offer" {
			pin := plan.Pin{Node: nodeID(words[1])}
			if _, err := fmt.Sscanf(words[2], "%d:%d", &pin.Start, &pin.End); err != nil {
				d.Fatalf(t, "%v", err)
			}
			if words[0] == "pin" {
				c.Pins = append(c.Pins, pin)
			} else {
				c.Offers = append(c.Offers, pin)
			}
			continue
		}
		n := plan.Node{ID: nodeID(words[0]), Name: words[0], Threads: 1}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			v, err := strconv.Atoi(value)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			switch key {
			case "memory":
				n.Memory = uint64(v) * mib
			case "us":
				n.LayerNanos = uint64(v) * 1000
			case "threads":
				n.Threads = v
			}
		}
		nodes = append(nodes, n)
	}
	return m, nodes, c
}

func small() (plan.Model, []plan.Node, plan.Constraints) {
	m := plan.Model{LayerBytes: []uint64{mib, mib, mib, mib}, Cuts: []int{0, 1, 2, 3, 4}, KVBytes: 1 << 10, CutRule: "any layer"}
	return m, []plan.Node{{ID: nodeID("a"), Memory: 100 * mib, Threads: 1}, {ID: nodeID("b"), Memory: 100 * mib, Threads: 1}},
		plan.Constraints{Context: 10, Slots: 1}
}

// What cannot be is said, whoever asks.
func TestInputsThatCannotBeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*plan.Model, *[]plan.Node, *plan.Constraints)
		want  fault.Code
	}{
		"no layers":         {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.LayerBytes = nil }, fault.PlanInputInvalid},
		"too many layers":   {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.LayerBytes = make([]uint64, 257) }, fault.PlanInputInvalid},
		"cuts from 1":       {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.Cuts = []int{1, 4} }, fault.PlanInputInvalid},
		"cuts to 3":         {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.Cuts = []int{0, 3} }, fault.PlanInputInvalid},
		"one cut":           {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.Cuts = []int{0} }, fault.PlanInputInvalid},
		"cuts twice":        {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.Cuts = []int{0, 2, 2, 4} }, fault.PlanInputInvalid},
		"no context":        {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Context = 0 }, fault.PlanInputInvalid},
		"no slots":          {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Slots = 0 }, fault.PlanInputInvalid},
		"many tokens":       {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Context, c.Slots = 1<<20, 1<<20 }, fault.PlanInputInvalid},
		"reserve below 0":   {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.ReservePerMil = -1 }, fault.PlanInputInvalid},
		"reserve of all":    {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.ReservePerMil = 1000 }, fault.PlanInputInvalid},
		"least below 0":     {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Least = -1 }, fault.PlanInputInvalid},
		"most below 0":      {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Most = -1 }, fault.PlanInputInvalid},
		"least above most":  {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Least, c.Most = 2, 1 }, fault.PlanInputInvalid},
		"huge layer":        {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.LayerBytes[1] = 1 << 51 }, fault.PlanInputInvalid},
		"huge embedding":    {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.EmbeddingBytes = 1 << 51 }, fault.PlanInputInvalid},
		"huge head":         {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.HeadBytes = 1 << 51 }, fault.PlanInputInvalid},
		"huge buffers":      {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.ComputeBytes = 1 << 51 }, fault.PlanInputInvalid},
		"huge KV cache":     {func(m *plan.Model, _ *[]plan.Node, _ *plan.Constraints) { m.KVBytes = 1<<20 + 1 }, fault.PlanInputInvalid},
		"a node twice":      {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { (*n)[1].ID = (*n)[0].ID }, fault.PlanInputInvalid},
		"a node without id": {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { (*n)[1].ID = id.NodeID{} }, fault.PlanInputInvalid},
		"huge memory":       {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { (*n)[1].Memory = 1<<60 + 1 }, fault.PlanInputInvalid},
		"endless layer":     {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { (*n)[1].LayerNanos = 1<<40 + 1 }, fault.PlanInputInvalid},
		"many threads":      {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { (*n)[1].Threads = 1<<16 + 1 }, fault.PlanInputInvalid},
		"no nodes":          {func(_ *plan.Model, n *[]plan.Node, _ *plan.Constraints) { *n = nil }, fault.PlanNodesTooFew},
		"least above nodes": {func(_ *plan.Model, _ *[]plan.Node, c *plan.Constraints) { c.Least = 3 }, fault.PlanNodesTooFew},
		"least above cuts":  {func(m *plan.Model, _ *[]plan.Node, c *plan.Constraints) { m.Cuts, c.Least = []int{0, 4}, 2 }, fault.ModelLayersTooFew},
		"sound":             {func(*plan.Model, *[]plan.Node, *plan.Constraints) {}, ""},
	} {
		m, nodes, k := small()
		c.spoil(&m, &nodes, &k)
		_, err := plan.Place(m, nodes, k)
		if c.want == "" && err != nil || c.want != "" && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// The figures of the shortage are those of the input.
func TestAShortageSaysWhatWasNeededAndHad(t *testing.T) {
	m, nodes, c := small()
	nodes[0].Memory, nodes[1].Memory = mib, mib/2
	_, err := plan.Place(m, nodes, c)
	f := fault.From(err)
	if f.Code != fault.PlanMemoryShort {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"need": "4.0 MiB", "weights": "4.0 MiB", "kv": "40.0 KiB", "had": "1.5 MiB", "nodes": "meaaaaaa 1.0 MiB, miaaaaaa 512.0 KiB",
	} {
		if f.Attr(key) != want {
			t.Errorf("%s is %q, want %q", key, f.Attr(key), want)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, count := range []int{3, 10, 64, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			m := plan.Model{LayerBytes: slices.Repeat([]uint64{200 * mib}, 80), KVBytes: 4096, ComputeBytes: 500 * mib}
			for i := range 81 {
				m.Cuts = append(m.Cuts, i)
			}
			var nodes []plan.Node
			for i := range count {
				nodes = append(nodes, plan.Node{
					ID: id.NodeID{byte(i), byte(i >> 8), 1}, Memory: uint64(8+i%5) << 30, LayerNanos: uint64(300+37*(i%11)) * 1000, Threads: 4,
				})
			}
			for b.Loop() {
				if _, err := plan.Place(m, nodes, plan.Constraints{Context: 8192, Slots: 1, ReservePerMil: 100}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
