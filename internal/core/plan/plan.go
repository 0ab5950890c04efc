package plan

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/fault"
	"muster/internal/id"
)

// Stage is a range of layers on a node.
type Stage struct {
	Node         id.NodeID
	Boot         id.BootID
	Name         string
	Start, End   int // [Start,End)
	WeightBytes  uint64
	KVBytes      uint64
	ComputeBytes uint64
	UsableBytes  uint64 // of its node, the reserve taken off
	Nanos        uint64 // of one token, expected
	Reason       string // in words
}

// Plan is the stages in the order of the layers.
type Plan struct {
	Stages   []Stage
	Slowest  int // the stage that sets the pace
	Unused   []Unused
	Released []Released
}

// Released is an offer that the plan does not honour.
type Released struct {
	Pin
	Name   string // of the node
	Reason string
}

// Unused is a node without a stage.
type Unused struct {
	Node   id.NodeID
	Name   string
	Reason string
}

// Place places a model. Its faults are plan.input_invalid, plan.nodes_too_few,
// plan.cut_refused, plan.pin_refused, plan.memory_short and
// model.layers_too_few.
func Place(m Model, nodes []Node, c Constraints) (Plan, error) {
	c, released := honoured(m, nodes, c)
	p, f := prepare(m, nodes, c)
	if f != nil {
		return Plan{}, f
	}
	places := p.solve()
	if places == nil {
		return Plan{}, p.short(nodes)
	}
	out := p.word(places, nodes)
	out.Released = released
	return out, nil
}

// word makes a plan of a solution, with reasons.
func (p *problem) word(places []place, nodes []Node) Plan {
	var out Plan
	for i, at := range places {
		if at.nanos > places[out.Slowest].nanos {
			out.Slowest = i
		}
	}
	for i, at := range places {
		weights, kv := p.need(at.start, at.end)
		s := Stage{
			Node: at.node.ID, Boot: at.node.Boot, Name: at.node.Name, Start: at.start, End: at.end,
			WeightBytes: weights, KVBytes: kv, ComputeBytes: p.m.ComputeBytes, UsableBytes: p.usable(at.node), Nanos: at.nanos,
		}
		s.Reason = p.reason(s, at.node, i == out.Slowest)
		out.Stages = append(out.Stages, s)
	}
	rest := slices.Clone(nodes)
	slices.SortFunc(rest, func(a, b Node) int { return a.ID.Compare(b.ID) })
	for _, n := range rest {
		if !slices.ContainsFunc(places, func(at place) bool { return at.node.ID == n.ID }) {
			out.Unused = append(out.Unused, Unused{Node: n.ID, Name: n.Name, Reason: p.whyUnused(n, len(places))})
		}
	}
	return out
}

func (p *problem) reason(s Stage, n Node, slowest bool) string {
	var b strings.Builder
	switch {
	case !p.measured:
		fmt.Fprintf(&b, "%s for %s, since no speed was measured", counted(s.End-s.Start, "layer"), counted(int(n.threads()), "thread"))
	case n.LayerNanos == 0:
		fmt.Fprintf(&b, "%s at %s take %s a token (its speed was not measured: taken from its %s)",
			counted(s.End-s.Start, "layer"), micros(p.nanos[n.ID]), micros(s.Nanos), counted(int(n.threads()), "thread"))
	default:
		fmt.Fprintf(&b, "%s at %s take %s a token", counted(s.End-s.Start, "layer"), micros(p.nanos[n.ID]), micros(s.Nanos))
	}
	fmt.Fprintf(&b, "; %s of %s", size(s.WeightBytes+s.KVBytes+s.ComputeBytes), size(s.UsableBytes))
	if s.Start == 0 {
		b.WriteString(", with the embedding")
	}
	if s.End == len(p.m.LayerBytes) {
		b.WriteString(", with the head")
	}
	switch of := func(pin Pin) bool { return pin.Node == n.ID }; {
	case slices.ContainsFunc(p.c.Offers, of):
		b.WriteString("; as its operator offers")
	case slices.ContainsFunc(p.pins, of):
		b.WriteString("; pinned")
	}
	if slowest && p.measured {
		b.WriteString("; it sets the pace")
	}
	return b.String()
}

func (p *problem) whyUnused(n Node, stages int) string {
	switch {
	case p.passed[n.ID]:
		return fmt.Sprintf("of so many nodes only the fastest %d were looked at", considered)
	case !p.holdsAny(n):
		return fmt.Sprintf("its %s hold no stage", size(p.usable(n)))
	case p.c.Most > 0 && stages >= p.c.Most:
		return "no more than " + counted(p.c.Most, "stage") + " may be"
	default:
		return "with it the slowest stage would be no faster"
	}
}

// holdsAny reports whether some stage fits on the node at all.
func (p *problem) holdsAny(n Node) bool {
	for i := range p.m.Cuts[1:] {
		if p.time(n, p.m.Cuts[i], p.m.Cuts[i+1]) != never {
			return true
		}
	}
	return false
}

// short says what was needed and what there was. Needed is what the model takes
// on one node: each further one adds the buffers of a stage.
func (p *problem) short(nodes []Node) *fault.Fault {
	weights, kv := p.need(0, len(p.m.LayerBytes))
	var total uint64
	var had []string
	rest := slices.Clone(nodes)
	slices.SortFunc(rest, func(a, b Node) int { return a.ID.Compare(b.ID) })
	for _, n := range rest {
		total += p.usable(n)
		had = append(had, n.called()+" "+size(p.usable(n)))
	}
	return fault.New(fault.PlanMemoryShort, component,
		"need", size(weights+kv+p.m.ComputeBytes), "weights", size(weights), "kv", size(kv), "buffers", size(p.m.ComputeBytes),
		"had", size(total), "nodes", strings.Join(had, ", "), "context", p.c.Context, "slots", p.c.Slots, "stages", p.allowed())
}

// allowed words how many stages there may be.
func (p *problem) allowed() string {
	least := max(p.c.Least, 1)
	switch most := p.c.Most; {
	case most == 0:
		return counted(least, "stage") + " or more"
	case most == least:
		return counted(most, "stage")
	default:
		return fmt.Sprintf("%d to %d stages", least, most)
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func micros(nanos uint64) string { return fmt.Sprintf("%d.%d us", nanos/1000, nanos%1000/100) }

// size words bytes with one digit after the point.
func size(b uint64) string {
	for _, u := range []struct {
		name string
		bits uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if whole := b >> u.bits; whole > 0 {
			tenth := (b >> (u.bits - 10) & 1023) * 10 >> 10
			return fmt.Sprintf("%d.%d %s", whole, tenth, u.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}
