package gate

import "muster/internal/id"

// swim takes what the SWIM view says of a node. At one incarnation suspect
// overrides alive, dead overrides suspect and left overrides all; otherwise the
// higher incarnation is the later word.
func (g *Gate) swim(e SwimSeen) {
	i := g.find(e.Node)
	if i < 0 || e.Boot.IsZero() || e.State > SwimLeft {
		return
	}
	n := &g.nodes[i]
	switch e.State {
	case SwimAlive, SwimSuspect:
		if g.admit(i, e.Boot, "") {
			g.hearSwim(i, e)
		}
	case SwimLeft:
		g.leave(i, e)
	default:
		switch {
		case n.boot == e.Boot && e.State == SwimUnknown:
			g.forget(i)
		case n.boot == e.Boot:
			g.hearSwim(i, e)
		default:
			g.dropRival(i, e.Boot)
		}
	}
}

func (g *Gate) hearSwim(i int, e SwimSeen) {
	n := &g.nodes[i]
	newer := e.Incarnation > n.incarnation
	if e.Incarnation < n.incarnation || !newer && e.State <= n.swim {
		return
	}
	c := gained
	switch {
	case e.State == SwimSuspect:
		c = suspected
	case e.State == SwimDead:
		c = died
	case n.swim == SwimAlive:
		c = doubted
	}
	if e.State != n.swim {
		n.swimSince = g.now
	}
	n.swim, n.incarnation = e.State, e.Incarnation
	g.set(i, factAlive, e.State == SwimAlive)
	g.changed(i, c)
}

// forget takes back what SWIM said: its next word may have any incarnation.
func (g *Gate) forget(i int) {
	n := &g.nodes[i]
	if n.swim == SwimUnknown {
		return
	}
	n.swim, n.incarnation, n.swimSince = SwimUnknown, 0, g.now
	g.set(i, factAlive, false)
	g.changed(i, forgotten)
}

// leave ends a boot for good: no later fact of it counts. A rival takes its
// place unasked.
func (g *Gate) leave(i int, e SwimSeen) {
	n := &g.nodes[i]
	if n.isRetired(e.Boot) {
		return
	}
	if n.boot != e.Boot {
		n.retire(e.Boot)
		g.dropRival(i, e.Boot)
		return
	}
	if r := g.rivalOf(n.id); r != nil {
		g.replace(i, *r)
		return
	}
	last := n.endpoint // so that its departure can be named
	g.reboot(i, id.BootID{})
	n.endpoint, n.swim, n.swimSince = last, SwimLeft, g.now
	g.changed(i, departed)
}
