package plan

import (
	"cmp"
	"slices"

	"muster/internal/fault"
)

// mostOffers bounds how many offers are tried: each is one plan more.
const mostOffers = 64

// honoured makes pins of the offers with which a plan can be made, one after the
// other in the order of their layers, and says of the others why not. The operator
// of the pool comes first: no offer moves a pin.
func honoured(m Model, nodes []Node, c Constraints) (Constraints, []Released) {
	offers := slices.Clone(c.Offers)
	slices.SortFunc(offers, func(a, b Pin) int {
		return cmp.Or(a.Start-b.Start, a.End-b.End, a.Node.Compare(b.Node))
	})
	c.Pins, c.Offers = slices.Clone(c.Pins), nil
	var released []Released
	for i, o := range offers {
		if slices.Contains(c.Pins, o) {
			continue // it is wanted already
		}
		with := c
		with.Pins = append(slices.Clone(c.Pins), o)
		why := "of so many offers only the first are looked at"
		if i < mostOffers {
			why = unplaceable(m, nodes, with)
		}
		if why == "" {
			c.Pins, c.Offers = with.Pins, append(c.Offers, o)
			continue
		}
		released = append(released, Released{Pin: o, Name: nameOf(nodes, o), Reason: why})
	}
	return c, released
}

// unplaceable says why there is no plan with these constraints, "" where there is
// one.
func unplaceable(m Model, nodes []Node, c Constraints) string {
	p, f := prepare(m, nodes, c)
	switch {
	case f != nil && f.Code == fault.PlanPinRefused:
		return f.Attr("what")
	case f != nil:
		return f.Error()
	case p.solve() == nil:
		return "with it the rest of the model fits on no other nodes as the pool is to be cut"
	}
	return ""
}

func nameOf(nodes []Node, o Pin) string {
	for _, n := range nodes {
		if n.ID == o.Node {
			return n.Name
		}
	}
	return ""
}
