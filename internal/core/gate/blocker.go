package gate

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/id"
)

// Blocker is one thing that stands between the pool and its readiness.
type Blocker struct {
	Node id.NodeID // none where it is no node's
	Name string    // the node for people: its name and short id
	What string    // what is so
	Do   string    // what a person can do; "" where only waiting helps
}

func (b Blocker) String() string {
	s := b.What
	if b.Name != "" {
		s = b.Name + ": " + s
	}
	if b.Do != "" {
		s += "; " + b.Do
	}
	return s
}

// Blockers lists what stands in the way, of the pool first and then of each
// node in the order of the pool. It is empty if and only if the pool is ready.
// What is so is as of the latest step; ages are as of now.
func (g *Gate) Blockers(now time.Duration) []Blocker {
	now = max(now, g.now)
	all := g.poolBlockers(now)
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, b := range g.nodeBlockers(n, now) {
			b.Node, b.Name = n.id, n.called()
			all = append(all, b)
		}
	}
	return all
}

func (g *Gate) poolBlockers(now time.Duration) []Blocker {
	var all []Blocker
	add := func(what, do string) { all = append(all, Blocker{What: what, Do: do}) }
	switch {
	case g.epoch == 0:
		add("no pool is defined", "define one with `muster pool init`")
		return all
	case !g.run.IsZero():
		add("run "+g.run.Short()+" holds the pool", "")
	case g.aborted != nil:
		add("the formation was given up: "+g.aborted.Error(), "see what it names, then ask for another formation with `muster form`")
	}
	if len(g.nodes) == 0 {
		add("the pool has no nodes", "add some with `muster pool add`")
	}
	if g.starved {
		add("this machine does not get to run in time", "free its processors or its memory")
	}
	if !g.viewFresh {
		add("the membership view has not been read lately", "look at this machine's own network")
	}
	switch g.Phase() {
	case Settling:
		add(fmt.Sprintf("stable for %s of %s", seconds(now-g.since), seconds(g.config.Window)), "")
	case Asking:
		add(fmt.Sprintf("%d of %d nodes have answered the closing question, %s left", g.answers, len(g.nodes), seconds(max(g.askDue-now, 0))), "")
	default:
	}
	return all
}

func (g *Gate) nodeBlockers(n *node, now time.Duration) []Blocker {
	var all []Blocker
	add := func(what, do string) { all = append(all, Blocker{What: what, Do: do}) }
	if n.boot.IsZero() {
		if n.swim == SwimLeft {
			add("left "+seconds(now-n.swimSince)+" ago", "start it again, or remove it from the pool")
		} else {
			add("not heard of yet", "start `muster node` there with this orchestrator's id and address, or remove it from the pool")
		}
		return all
	}
	if !n.has(factSole) {
		all = append(all, g.rivalBlocker(n))
	}
	if !n.has(factKnown) {
		add("has not registered with this orchestrator", "see whether it was started with this orchestrator's id and address")
	}
	if !n.has(factAlive) {
		add(swimWords(n, now))
	}
	if !n.has(factAvailable) {
		add(bootWords(n))
	}
	if n.has(factKnown) && !n.has(factDialled) {
		add(dialWords(n))
	}
	if !n.has(factFresh) && n.contact == never {
		add("has answered nothing yet", "")
	} else if !n.has(factFresh) {
		add("last answer "+seconds(now-n.contact)+" ago", "see whether its machine and its link are well")
	}
	switch {
	case g.asking && n.round != g.round:
		add("has not answered the closing question yet", "")
	case n.missed && !g.ready && n.has(allFacts):
		add("left the last closing question unanswered", "see whether its machine and its link are well")
	}
	return all
}

func (g *Gate) rivalBlocker(n *node) Blocker {
	r := g.rivalOf(n.id)
	if !r.answered {
		return Blocker{What: "another start claims its id; the former one is being asked"}
	}
	return Blocker{
		What: fmt.Sprintf("two machines have its key, at %s and at %s", addressOr(n.endpoint), r.endpointOrUnknown()),
		Do:   "stop one of them and give it a key of its own",
	}
}

func swimWords(n *node, now time.Duration) (what, do string) {
	const look = "see whether its machine and its link are well"
	switch n.swim {
	case SwimSuspect:
		return "suspect for " + seconds(now-n.swimSince) + lastAnswer(n, now), look
	case SwimDead:
		return "dead for " + seconds(now-n.swimSince) + lastAnswer(n, now), look + ", or remove it from the pool"
	default:
		return "not in the membership view" + lastAnswer(n, now), "see whether UDP reaches it"
	}
}

func lastAnswer(n *node, now time.Duration) string {
	if n.contact == never {
		return ""
	}
	return ", last answer " + seconds(now-n.contact) + " ago"
}

func bootWords(n *node) (what, do string) {
	switch {
	case !n.faulted:
		return "has not announced itself available", "`muster status` there shows which fact is missing"
	case n.bootLoss == nil:
		return "faulted", "`muster status` there says why"
	default:
		return "faulted: " + n.bootLoss.Error(), n.bootLoss.Hint()
	}
}

func dialWords(n *node) (what, do string) {
	if n.dialLoss == nil {
		return n.endpoint + " has not been dialled back yet", ""
	}
	return n.endpoint + " did not show its key: " + n.dialLoss.Error(), n.dialLoss.Hint()
}

// called names a candidate for people.
func (n *node) called() string {
	if n.name == "" {
		return n.id.Short()
	}
	return n.name + " (" + n.id.Short() + ")"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// firstBlockers words the first few for one line.
func firstBlockers(all []Blocker) string {
	const most = 3
	var words []string
	for _, b := range all[:min(most, len(all))] {
		words = append(words, b.String())
	}
	if more := len(all) - most; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, " | ")
}
