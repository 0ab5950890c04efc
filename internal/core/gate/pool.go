package gate

import (
	"muster/internal/fault"
	"muster/internal/id"
)

// define takes the operator's pool. Nodes that stay keep their facts; what was
// held of a node that goes is forgotten.
func (g *Gate) define(e PoolDefined) {
	if e.Epoch <= g.epoch {
		return
	}
	if what := g.unsound(e.Members); what != "" {
		g.emit(PoolRefused{Epoch: e.Epoch, Fault: fault.New(fault.PoolDefinitionInvalid, component, "epoch", e.Epoch, "what", what)})
		return
	}
	former, formerIndex := g.nodes, g.index
	g.epoch = e.Epoch
	g.nodes = make([]node, 0, len(e.Members))
	g.index = make(map[id.NodeID]int32, len(e.Members))
	var added []id.NodeID
	for _, m := range e.Members {
		n := newNode(m)
		if i, stays := formerIndex[m.ID]; stays {
			n = former[i]
			n.name = m.Name
		} else {
			added = append(added, m.ID)
		}
		g.index[m.ID] = int32(len(g.nodes))
		g.nodes = append(g.nodes, n)
	}
	g.recount()
	g.aborted = nil
	g.unsettleByDefinition()
	g.loseRemoved(former)
	if len(added) > 0 {
		g.emit(AskFacts{Nodes: added})
	}
}

// unsound says what is wrong with a definition, "" where nothing is.
func (g *Gate) unsound(members []Member) string {
	seen := make(map[id.NodeID]bool, len(members))
	for _, m := range members {
		switch {
		case m.ID.IsZero():
			return "a member has no id"
		case m.ID == g.config.Self:
			return m.ID.Short() + " is the orchestrator, which computes no layers"
		case seen[m.ID]:
			return m.ID.Short() + " stands in it twice"
		}
		seen[m.ID] = true
	}
	return ""
}

func (g *Gate) recount() {
	g.short = 0
	for i := range g.nodes {
		if !g.nodes[i].has(allFacts) {
			g.short++
		}
	}
	kept := g.rivals[:0]
	for _, r := range g.rivals {
		if g.find(r.node) >= 0 {
			kept = append(kept, r)
		}
	}
	g.rivals = kept
}

// unsettleByDefinition starts a formation of the new pool. A standing readiness
// was of another pool: that is the operator's will, and no loss to abort on.
func (g *Gate) unsettleByDefinition() {
	g.since, g.asking = g.now, false
	if g.ready {
		g.ready = false
		g.emit(PoolLost{Epoch: g.epoch, Fault: fault.New(fault.PoolRedefined, component, "epoch", g.epoch)})
	}
	g.startFormation()
}

// loseRemoved ends the run where the operator took a node that it needs.
func (g *Gate) loseRemoved(former []node) {
	for i := range former {
		if n := &former[i]; n.required && g.find(n.id) < 0 {
			g.loseRun(n.id, g.lossOf(n, removed))
		}
	}
}
