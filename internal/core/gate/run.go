package gate

import (
	"fmt"

	"muster/internal/fault"
	"muster/internal/id"
)

// commit compares what a plan was made from with what stands, and gives it the
// pool only if they are the same. Every request is answered.
func (g *Gate) commit(e CommitAsked) {
	if what := g.objection(e); what != "" {
		g.emit(CommitRefused{Run: e.Run, Fault: fault.New(fault.PoolCommitRefused, component, "what", what)})
		return
	}
	for _, b := range e.Nodes {
		g.nodes[g.find(b.Node)].required = true
	}
	g.run, g.runLoss = e.Run, nil
	g.ready = false
	g.emit(CommitGranted{Run: e.Run})
}

// objection says why a plan cannot be committed, "" where it can.
func (g *Gate) objection(e CommitAsked) string {
	switch {
	case e.Run.IsZero():
		return "it names no run"
	case !g.run.IsZero():
		return "run " + g.run.Short() + " holds the pool"
	case e.Epoch != g.epoch:
		return fmt.Sprintf("it was made for epoch %d of the pool, which is at %d", e.Epoch, g.epoch)
	case !g.ready:
		return "the pool is " + g.Phase().String() + ", not ready"
	case e.Round != g.round:
		return "the readiness it was made from has been lost since"
	case len(e.Nodes) == 0:
		return "it needs no node"
	}
	for _, b := range e.Nodes {
		i := g.find(b.Node)
		if i < 0 {
			return b.Node.Short() + " is not in the pool"
		}
		if g.nodes[i].boot != b.Boot {
			return g.nodes[i].called() + " has another boot"
		}
	}
	return ""
}

// loseRun ends the committed run by its first loss. While this machine itself
// was starved, no node is to blame.
func (g *Gate) loseRun(n id.NodeID, f *fault.Fault) {
	if g.run.IsZero() || g.runLoss != nil {
		return
	}
	if g.starved {
		f, n = g.starvation(), id.NodeID{}
	}
	g.runLoss = f
	g.emit(RunFaulted{Run: g.run, Node: n, Fault: f})
}

// endRun gives the pool back. Its readiness was used up by the run: another
// needs a window and a closing question of its own.
func (g *Gate) endRun(e RunEnded) {
	if g.run.IsZero() || e.Run != g.run {
		return
	}
	g.run, g.runLoss = id.RunID{}, nil
	for i := range g.nodes {
		g.nodes[i].required = false
	}
	g.since = g.now
	g.startFormation()
}
