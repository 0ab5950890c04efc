package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/internal/fault"
	"muster/internal/id"
)

// Model is what a plan needs to know of a model. Bytes are of the file's
// quantisation.
type Model struct {
	Architecture   string
	LayerBytes     []uint64 // of each layer's weights
	EmbeddingBytes uint64   // on the first stage
	HeadBytes      uint64   // on the last stage: output norm and head
	KVBytes        uint64   // of one layer and one token
	ComputeBytes   uint64   // buffers of a stage, whatever its layers
	Cuts           []int    // where a stage may begin or end, rising, from 0 to the number of layers
	CutRule        string   // the same for people
}

// Node is a member of the ready pool.
type Node struct {
	ID         id.NodeID
	Boot       id.BootID
	Name       string
	Memory     uint64 // bytes that a worker can have, measured
	LayerNanos uint64 // of one token through one average layer, measured; 0 means unknown
	Threads    int
}

// Pin fixes a node's stage.
type Pin struct {
	Node       id.NodeID
	Start, End int // [Start,End)
}

// Constraints are the operator's and the recipe's.
type Constraints struct {
	Context       int // tokens of one slot
	Slots         int
	ReservePerMil int   // of each node's memory, kept free
	Least, Most   int   // stages; 0 means no bound
	Pins          []Pin // at most one a node
	Offers        []Pin // at most one a node; honoured as pins where a plan can be made with them
}

// exact is up to how many free nodes every order is looked at, considered how
// many are looked at otherwise.
const (
	exact      = 10
	considered = 64
)

// problem is a checked input.
type problem struct {
	m      Model
	c      Constraints
	free   []Node // without a pin, in the order in which they are looked at
	pinned []Node // beside pins
	pins   []Pin  // rising
	sums   []uint64
	mean   uint64 // bytes of an average layer
	nanos  map[id.NodeID]uint64
	// measured: some node's speed is known; otherwise nanos mean shares only.
	measured bool
	passed   map[id.NodeID]bool // not looked at
	times    []uint64           // of each free node from each cut to each
}

func prepare(m Model, nodes []Node, c Constraints) (*problem, *fault.Fault) {
	if what := unsound(m, nodes, c); what != "" {
		return nil, fault.New(fault.PlanInputInvalid, component, "what", what)
	}
	if len(nodes) == 0 || len(nodes) < c.Least {
		return nil, fault.New(fault.PlanNodesTooFew, component, "nodes", len(nodes), "least", max(c.Least, 1))
	}
	if most := len(m.Cuts) - 1; c.Least > most {
		return nil, fault.New(fault.ModelLayersTooFew, component, "workers", c.Least, "most", most)
	}
	p := &problem{m: m, c: c, sums: make([]uint64, len(m.LayerBytes)+1), passed: map[id.NodeID]bool{}}
	for i, b := range m.LayerBytes {
		p.sums[i+1] = p.sums[i] + b
	}
	p.mean = max(p.sums[len(m.LayerBytes)]/uint64(len(m.LayerBytes)), 1)
	p.nanos = speeds(nodes)
	p.measured = slices.ContainsFunc(nodes, func(n Node) bool { return n.LayerNanos > 0 })
	if f := p.pin(nodes); f != nil {
		return nil, f
	}
	for _, n := range nodes {
		if !slices.ContainsFunc(p.pins, func(pin Pin) bool { return pin.Node == n.ID }) {
			p.free = append(p.free, n)
		}
	}
	p.order()
	p.measure()
	return p, nil
}

// Bounds that keep every sum of bytes within 64 bits, and the search small.
const (
	mostLayers  = 256
	mostBytes   = 1 << 50
	mostTokens  = 1 << 28 // in all slots together
	mostKVBytes = 1 << 20
)

// unsound says what is wrong with an input, "" where nothing is.
func unsound(m Model, nodes []Node, c Constraints) string {
	layers := len(m.LayerBytes)
	switch {
	case layers == 0 || layers > mostLayers:
		return fmt.Sprintf("a model of %d layers", layers)
	case len(m.Cuts) < 2 || m.Cuts[0] != 0 || m.Cuts[len(m.Cuts)-1] != layers || !rising(m.Cuts):
		return fmt.Sprintf("the cuts %v do not rise from 0 to %d", m.Cuts, layers)
	case c.Context < 1 || c.Slots < 1 || c.Context > mostTokens/c.Slots:
		return fmt.Sprintf("a context of %d tokens in %d slots", c.Context, c.Slots)
	case c.ReservePerMil < 0 || c.ReservePerMil > 999:
		return fmt.Sprintf("a reserve of %d per mil", c.ReservePerMil)
	case c.Least < 0 || c.Most < 0 || c.Most > 0 && c.Least > c.Most:
		return fmt.Sprintf("%d to %d stages", c.Least, c.Most)
	}
	for _, b := range append([]uint64{m.EmbeddingBytes, m.HeadBytes, m.ComputeBytes}, m.LayerBytes...) {
		if b > mostBytes {
			return "more bytes of weights or buffers than any machine has"
		}
	}
	if m.KVBytes > mostKVBytes {
		return fmt.Sprintf("a KV cache of %d bytes a layer and token", m.KVBytes)
	}
	seen := map[id.NodeID]bool{{}: true}
	for _, n := range nodes {
		if seen[n.ID] {
			return "a node without an id, or twice the same"
		}
		if n.Memory > 1<<60 || n.LayerNanos > 1<<40 || n.Threads > 1<<16 {
			return n.called() + " has figures that no machine has"
		}
		seen[n.ID] = true
	}
	return ""
}

func rising(cuts []int) bool {
	for i := 1; i < len(cuts); i++ {
		if cuts[i] <= cuts[i-1] {
			return false
		}
	}
	return true
}

// pin takes the pins: each on allowed cuts, of a node of the pool, none over
// another.
func (p *problem) pin(nodes []Node) *fault.Fault {
	p.pins = slices.Clone(p.c.Pins)
	slices.SortFunc(p.pins, func(a, b Pin) int { return a.Start - b.Start })
	for i, pin := range p.pins {
		for _, at := range []int{pin.Start, pin.End} {
			if _, allowed := slices.BinarySearch(p.m.Cuts, at); !allowed {
				return fault.New(fault.PlanCutRefused, component, "layer", at, "architecture", p.m.Architecture, "rule", p.m.CutRule)
			}
		}
		k := slices.IndexFunc(nodes, func(n Node) bool { return n.ID == pin.Node })
		refuse := func(what string) *fault.Fault {
			return fault.New(fault.PlanPinRefused, component, "node", pin.Node.Short(), "start", pin.Start, "end", pin.End, "what", what)
		}
		switch {
		case k < 0:
			return refuse("the node is not in the ready pool")
		case pin.End <= pin.Start:
			return refuse("it holds no layer")
		case i > 0 && p.pins[i-1].End > pin.Start:
			return refuse("another pin holds some of these layers")
		case slices.ContainsFunc(p.pins[:i], func(q Pin) bool { return q.Node == pin.Node }):
			return refuse("the node has another pin")
		}
		p.pinned = append(p.pinned, nodes[k])
	}
	return nil
}

// order sorts the free nodes: few by name and id, since every order is looked
// at; many with the fastest first, since then the stages follow this order.
func (p *problem) order() {
	slices.SortFunc(p.free, func(a, b Node) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.ID.Compare(b.ID))
	})
	if len(p.free) <= exact {
		return
	}
	slices.SortStableFunc(p.free, func(a, b Node) int {
		switch x, y := p.nanos[a.ID], p.nanos[b.ID]; {
		case x < y || x == y && a.Memory > b.Memory:
			return -1
		case x > y || a.Memory < b.Memory:
			return 1
		}
		return 0
	})
	if len(p.free) > considered {
		for _, n := range p.free[considered:] {
			p.passed[n.ID] = true
		}
		p.free = p.free[:considered]
	}
}

// speeds gives each node its nanoseconds of an average layer. A node that was
// not measured is taken for as fast, thread by thread, as the middle one of
// those that were.
func speeds(nodes []Node) map[id.NodeID]uint64 {
	var work []uint64 // nanoseconds x threads
	for _, n := range nodes {
		if n.LayerNanos > 0 {
			work = append(work, n.LayerNanos*n.threads())
		}
	}
	middle := uint64(1_000_000)
	if len(work) > 0 {
		slices.Sort(work)
		middle = work[len(work)/2]
	}
	all := make(map[id.NodeID]uint64, len(nodes))
	for _, n := range nodes {
		all[n.ID] = n.LayerNanos
		if n.LayerNanos == 0 {
			all[n.ID] = max(middle/n.threads(), 1)
		}
	}
	return all
}

func (n Node) threads() uint64 { return uint64(max(n.Threads, 1)) }

func (n Node) called() string {
	if n.Name == "" {
		return n.ID.Short()
	}
	return n.Name + " (" + n.ID.Short() + ")"
}

const component = "plan"
