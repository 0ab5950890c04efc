package plan

import (
	"math"
	"math/bits"
	"slices"
)

// never is the time of what cannot be.
const never = math.MaxUint64

// need is the memory of layers [start,end) on one node.
func (p *problem) need(start, end int) (weights, kv uint64) {
	weights = p.sums[end] - p.sums[start]
	if start == 0 {
		weights += p.m.EmbeddingBytes
	}
	if end == len(p.m.LayerBytes) {
		weights += p.m.HeadBytes
	}
	kv = uint64(end-start) * p.m.KVBytes * uint64(p.c.Context) * uint64(p.c.Slots)
	return weights, kv
}

// usable is a node's memory less the reserve.
func (p *problem) usable(n Node) uint64 {
	hi, lo := bits.Mul64(n.Memory, uint64(p.c.ReservePerMil))
	reserve, _ := bits.Div64(hi, lo, 1000)
	return n.Memory - reserve
}

// time is the nanoseconds of a token through layers [start,end) on a node,
// never where they do not fit.
func (p *problem) time(n Node, start, end int) uint64 {
	weights, kv := p.need(start, end)
	if weights+kv+p.m.ComputeBytes > p.usable(n) {
		return never
	}
	return p.duration(n, start, end)
}

func (p *problem) duration(n Node, start, end int) uint64 {
	read := p.sums[end] - p.sums[start]
	if end == len(p.m.LayerBytes) {
		read += p.m.HeadBytes
	}
	hi, lo := bits.Mul64(p.nanos[n.ID], read)
	if hi >= p.mean {
		return never - 1
	}
	t, _ := bits.Div64(hi, lo, p.mean)
	return t
}

// measure fills times.
func (p *problem) measure() {
	n := len(p.m.Cuts)
	p.times = make([]uint64, len(p.free)*n*n)
	for i, on := range p.free {
		for from, start := range p.m.Cuts {
			for to := from + 1; to < n; to++ {
				p.times[(i*n+from)*n+to] = p.time(on, start, p.m.Cuts[to])
			}
		}
	}
}

// timeOf is a free node's time from one cut to another, by their places.
func (p *problem) timeOf(node, from, to int) uint64 {
	n := len(p.m.Cuts)
	return p.times[(node*n+from)*n+to]
}

// place is one stage of a solution.
type place struct {
	node       Node
	start, end int
	nanos      uint64
}

// cell is the best way to a state with the layers before a cut placed: the
// least time in all, and where it came from.
type cell struct {
	total     uint64
	fromState int
	fromCut   int
	node      int // of free; pinnedNode for a pin; skipped
}

const (
	pinnedNode = -1
	skipped    = -2
)

// space is the states of the search. A state knows which free nodes may come
// yet, and how many were used. Every move leads to a higher state, or along a
// pin to the same state at a later cut.
type space struct {
	p      *problem
	subset bool // a state is a set of nodes; otherwise a place in their order and a count
	width  int  // most free nodes used, plus 1; of the ordered kind
	states int
}

func (p *problem) space() space {
	if len(p.free) <= exact {
		return space{p: p, subset: true, states: 1 << len(p.free)}
	}
	width := min(len(p.free), len(p.m.Cuts)-1) + 1
	return space{p: p, width: width, states: (len(p.free) + 1) * width}
}

// used is how many free nodes have a stage in a state.
func (s space) used(state int) int {
	if s.subset {
		return bits.OnesCount(uint(state))
	}
	return state % s.width
}

// moves calls move for each node that may come next, and skip for the state in
// which the next node of the order is left out.
func (s space) moves(state int, move func(node, next int), skip func(next int)) {
	if s.subset {
		for i := range s.p.free {
			if state&(1<<i) == 0 {
				move(i, state|1<<i)
			}
		}
		return
	}
	i := state / s.width
	if i == len(s.p.free) {
		return
	}
	if state%s.width < s.width-1 {
		move(i, state+s.width+1)
	}
	skip(state + s.width)
}

// search finds the best plan with no stage slower than limit: the fewest
// stages, then the least time in all. It returns nil where there is none.
func (p *problem) search(limit uint64) []place {
	s := p.space()
	cuts := p.m.Cuts
	table := make([]cell, s.states*len(cuts))
	for i := range table {
		table[i].total = never
	}
	at := func(state, cut int) *cell { return &table[state*len(cuts)+cut] }
	better := func(state, cut int, c cell) {
		if to := at(state, cut); c.total < to.total {
			*to = c
		}
	}
	at(0, 0).total = 0
	for state := range s.states {
		for cut := range cuts {
			from := at(state, cut).total
			if from == never || cut == len(cuts)-1 {
				continue
			}
			if k := p.pinAt(cuts[cut]); k >= 0 {
				to, _ := slices.BinarySearch(cuts, p.pins[k].End)
				if t := p.time(p.pinned[k], p.pins[k].Start, p.pins[k].End); t <= limit {
					better(state, to, cell{from + t, state, cut, pinnedNode})
				}
				continue
			}
			last := p.reach(cut)
			s.moves(state, func(node, next int) {
				for to := cut + 1; to <= last; to++ {
					t := p.timeOf(node, cut, to)
					if t > limit {
						break // more layers take more of both
					}
					better(next, to, cell{from + t, state, cut, node})
				}
			}, func(next int) { better(next, cut, cell{from, state, cut, skipped}) })
		}
	}
	return p.trace(s, table)
}

// pinAt returns the pin that begins at a layer, or -1.
func (p *problem) pinAt(layer int) int {
	return slices.IndexFunc(p.pins, func(pin Pin) bool { return pin.Start == layer })
}

// reach is the last cut that a stage from this one may end at: pins are not
// crossed.
func (p *problem) reach(cut int) int {
	for _, pin := range p.pins {
		if pin.Start > p.m.Cuts[cut] {
			to, _ := slices.BinarySearch(p.m.Cuts, pin.Start)
			return to
		}
	}
	return len(p.m.Cuts) - 1
}

// trace picks the best state in which every layer is placed, and walks back.
func (p *problem) trace(s space, table []cell) []place {
	cuts := p.m.Cuts
	best, bestUsed, total := -1, 0, uint64(never)
	for state := range s.states {
		c, used := table[state*len(cuts)+len(cuts)-1], s.used(state)
		stages := used + len(p.pins)
		if c.total == never || stages < p.c.Least || p.c.Most > 0 && stages > p.c.Most {
			continue
		}
		if best < 0 || used < bestUsed || used == bestUsed && c.total < total {
			best, bestUsed, total = state, used, c.total
		}
	}
	if best < 0 {
		return nil
	}
	var places []place
	for state, cut := best, len(cuts)-1; state != 0 || cut != 0; {
		c := table[state*len(cuts)+cut]
		switch {
		case c.node >= 0:
			places = append(places, p.placed(p.free[c.node], cuts[c.fromCut], cuts[cut]))
		case c.node == pinnedNode:
			places = append(places, p.placed(p.pinned[p.pinAt(cuts[c.fromCut])], cuts[c.fromCut], cuts[cut]))
		}
		state, cut = c.fromState, c.fromCut
	}
	slices.Reverse(places)
	return places
}

func (p *problem) placed(n Node, start, end int) place {
	return place{node: n, start: start, end: end, nanos: p.duration(n, start, end)}
}

// limits lists every time that a stage can take, rising: the slowest stage of
// the best plan takes one of them.
func (p *problem) limits() []uint64 {
	all := slices.Clone(p.times)
	for i, pin := range p.pins {
		all = append(all, p.time(p.pinned[i], pin.Start, pin.End))
	}
	all = slices.DeleteFunc(all, func(t uint64) bool { return t == never })
	slices.Sort(all)
	return slices.Compact(all)
}

// solve finds the smallest limit within which there is a plan, and that plan.
func (p *problem) solve() []place {
	limits := p.limits()
	if len(limits) == 0 {
		return nil
	}
	best := p.search(limits[len(limits)-1])
	if best == nil {
		return nil
	}
	for low, high := 0, len(limits)-1; low < high; {
		middle := (low + high) / 2
		if found := p.search(limits[middle]); found != nil {
			best, high = found, middle
		} else {
			low = middle + 1
		}
	}
	return best
}
