package gate

import (
	"slices"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// rival is a boot that claims the id of a candidate which has another.
type rival struct {
	node     id.NodeID
	boot     id.BootID
	endpoint string        // "" until it has said one
	ask      uint64        // the question put to the holder
	due      time.Duration // of the holder's answer
	answered bool          // the id is contested
	heard    time.Duration // instant of the rival's latest fact
}

func (r *rival) booted() Booted { return Booted{Node: r.node, Boot: r.boot, Endpoint: r.endpoint} }

func (r *rival) endpointOrUnknown() string { return addressOr(r.endpoint) }

func addressOr(endpoint string) string {
	if endpoint == "" {
		return "an address not yet known"
	}
	return endpoint
}

// rivalOf returns the rival of a candidate, nil where it has none.
func (g *Gate) rivalOf(n id.NodeID) *rival {
	for i := range g.rivals {
		if g.rivals[i].node == n {
			return &g.rivals[i]
		}
	}
	return nil
}

// contend hears a fact of a boot that is not the candidate's. The id is blocked
// from the first such fact on; the holder is asked, and asked again when the
// rival is heard of later on.
func (g *Gate) contend(i int, boot id.BootID, endpoint string) {
	n := &g.nodes[i]
	r := g.rivalOf(n.id)
	switch {
	case r == nil:
		g.rivals = append(g.rivals, rival{node: n.id})
		r = &g.rivals[len(g.rivals)-1]
	case r.boot != boot && !r.answered:
		return // one question at a time: a third boot will be heard again
	}
	again := r.boot != boot || r.answered && g.now-r.due >= g.config.Holder
	r.boot, r.heard = boot, g.now
	if endpoint != "" {
		r.endpoint = endpoint
	}
	if again {
		g.askHolder(n, r)
	}
	if n.has(factSole) {
		g.set(i, factSole, false)
		g.changed(i, contested)
	}
}

func (g *Gate) askHolder(n *node, r *rival) {
	g.asks++
	r.ask, r.due, r.answered = g.asks, g.now+g.config.Holder, false
	g.emit(AskHolder{Ask: r.ask, Holder: n.booted(), Rival: r.booted()})
}

// asked returns the place of the candidate, and its rival, whose question this
// is, still open and put to this boot.
func (g *Gate) asked(ask uint64, holder id.BootID) (int, *rival) {
	for k := range g.rivals {
		r := &g.rivals[k]
		if r.ask != ask || r.answered {
			continue
		}
		if i := g.find(r.node); i >= 0 && g.isOf(i, holder) {
			return i, r
		}
	}
	return -1, nil
}

func (g *Gate) holderAnswered(e HolderAnswered) {
	i, r := g.asked(e.Ask, e.Boot)
	if i < 0 {
		return
	}
	n := &g.nodes[i]
	r.answered, r.due = true, g.now
	f := fault.New(fault.NodeIDContested, component, "name", n.called(), "endpoint", addressOr(n.endpoint), "rival", r.endpointOrUnknown())
	f.Node = n.id.Short()
	g.emit(RivalRefused{Rival: r.booted(), Fault: f})
}

func (g *Gate) holderGone(e HolderGone) {
	if i, r := g.asked(e.Ask, e.Boot); i >= 0 {
		g.replace(i, *r)
	}
}

// replace gives the id to the rival. None of its facts was held while it was
// one, so they are asked for.
func (g *Gate) replace(i int, r rival) {
	n := &g.nodes[i]
	former := n.boot
	g.removeRival(r.node)
	g.reboot(i, r.boot)
	g.changed(i, restarted)
	g.emit(BootReplaced{Booted: r.booted(), Former: former})
	g.emit(AskFacts{Nodes: []id.NodeID{n.id}})
}

// dropRival forgets a rival that has gone: the holder is the only one again.
func (g *Gate) dropRival(i int, boot id.BootID) {
	n := &g.nodes[i]
	if r := g.rivalOf(n.id); r != nil && r.boot == boot {
		g.removeRival(n.id)
		g.set(i, factSole, true)
		g.changed(i, gained)
	}
}

func (g *Gate) removeRival(n id.NodeID) {
	g.rivals = slices.DeleteFunc(g.rivals, func(r rival) bool { return r.node == n })
}
