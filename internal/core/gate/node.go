package gate

import (
	"slices"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// fact is one of the six truths of a candidate, as a bit.
type fact uint8

const (
	factKnown fact = 1 << iota
	factAlive
	factAvailable
	factDialled
	factFresh // an answer of the node is young enough
	factSole  // no other boot claims the id
	allFacts  = factKnown | factAlive | factAvailable | factDialled | factFresh | factSole
)

// node is a candidate. Everything but id, name and retired is of one boot.
type node struct {
	id       id.NodeID
	name     string
	boot     id.BootID // none: no boot of it counts
	endpoint string    // "" until known
	retired  []id.BootID
	bootLoss *fault.Fault // of attempt, where it faulted and said why
	dialLoss *fault.Fault // of the latest dial that failed

	contact   time.Duration // instant of the latest answer; never: none
	swimSince time.Duration
	round     uint64 // the latest closing question it answered

	incarnation uint32
	attempt     uint32
	have        fact
	swim        SwimState
	faulted     bool // attempt has failed
	required    bool // by the committed run
	missed      bool // it left the latest closing question unanswered
}

// never is an instant before every other.
const never = -1 << 62

// mostRetired bounds how many former boots of a node are told from new ones.
const mostRetired = 32

func newNode(m Member) node {
	return node{id: m.ID, name: m.Name, contact: never, have: factSole}
}

func (n *node) booted() Booted { return Booted{Node: n.id, Boot: n.boot, Endpoint: n.endpoint} }

func (n *node) has(f fact) bool { return n.have&f == f }

// rebooted makes boot the node's, with no fact held of it.
func (n *node) rebooted(boot id.BootID) {
	if !n.boot.IsZero() {
		n.retire(n.boot)
	}
	*n = node{id: n.id, name: n.name, boot: boot, retired: n.retired, contact: never, have: factSole, required: n.required}
}

// retire makes facts of boot void for good.
func (n *node) retire(boot id.BootID) {
	if slices.Contains(n.retired, boot) {
		return
	}
	if len(n.retired) == mostRetired {
		n.retired = slices.Delete(n.retired, 0, 1)
	}
	n.retired = append(n.retired, boot)
}

// find returns a candidate's place, or -1.
func (g *Gate) find(n id.NodeID) int {
	if i, ok := g.index[n]; ok {
		return int(i)
	}
	return -1
}

// set sets facts of a candidate to hold or not, and counts it.
func (g *Gate) set(i int, f fact, hold bool) {
	n := &g.nodes[i]
	before := n.has(allFacts)
	if hold {
		n.have |= f
	} else {
		n.have &^= f
	}
	g.count(before, n.has(allFacts))
}

func (g *Gate) count(before, after bool) {
	switch {
	case before && !after:
		g.short++
	case !before && after:
		g.short--
	}
}

// reboot gives a candidate another boot, or none.
func (g *Gate) reboot(i int, boot id.BootID) {
	n := &g.nodes[i]
	before := n.has(allFacts)
	n.rebooted(boot)
	g.count(before, n.has(allFacts))
}

// changed is called after every change in a candidate: the window starts
// again, and where the change is a loss it ends readiness or the run.
func (g *Gate) changed(i int, c change) {
	n := &g.nodes[i]
	g.unsettle(func() *fault.Fault { return g.lossOf(n, c) })
	if n.required && c.loss() {
		g.loseRun(n.id, g.lossOf(n, c))
	}
}

// change is what happened to a candidate.
type change uint8

const (
	gained     change = iota // a fact came to hold
	moved                    // another endpoint
	suspected                // by SWIM
	doubted                  // suspected and refuted, seen by its incarnation only
	died                     // by SWIM
	departed                 // it has left
	forgotten                // by SWIM
	bootFailed               // its attempt faulted
	restarted                // another boot has its id
	contested                // another boot claims its id
	refused                  // its endpoint showed no key of it
	silent                   // its last answer is too old
	removed                  // from the pool
)

// losses gives each change its fault; a run ends by it where ends is set. To
// gain a fact is none: while the pool is ready or a run's, all are held.
var losses = map[change]struct {
	code fault.Code
	ends bool
}{
	moved:      {fault.NodeEndpointMoved, false},
	suspected:  {fault.NodeSuspected, true},
	doubted:    {fault.NodeDoubted, true},
	died:       {fault.NodeDied, true},
	departed:   {fault.NodeDeparted, true},
	forgotten:  {fault.NodeDied, true},
	bootFailed: {fault.NodeBootFaulted, true},
	restarted:  {fault.NodeRestarted, true},
	contested:  {fault.NodeIDContested, false},
	refused:    {fault.NodeIdentityRefused, true},
	silent:     {fault.NodeContactExpired, true},
	removed:    {fault.NodeRemoved, true},
}

func (c change) loss() bool { return losses[c].ends }

// lossOf words a change of a candidate as a fault that names it.
func (g *Gate) lossOf(n *node, c change) *fault.Fault {
	f := fault.New(losses[c].code, component, "name", n.called(), "endpoint", n.endpoint, "incarnation", n.incarnation)
	f.Node = n.id.Short()
	switch {
	case c == silent:
		f.Attrs = append(f.Attrs, fault.Attr{Key: "waited", Value: seconds(g.now - n.contact)})
	case c == bootFailed && n.bootLoss != nil:
		f.Cause = n.bootLoss
	case c == refused && n.dialLoss != nil:
		f.Cause = n.dialLoss
	case c == contested:
		if r := g.rivalOf(n.id); r != nil {
			f.Attrs = append(f.Attrs, fault.Attr{Key: "rival", Value: r.endpointOrUnknown()})
		}
	}
	return f
}
