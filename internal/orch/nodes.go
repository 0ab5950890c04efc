package orch

import (
	"context"
	"slices"
	"time"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
	"muster/internal/wire/controlpb"
)

// node is a candidate and the ledger of its boots.
type node struct {
	store.Node
	lives []*life      // in the order in which they were heard of
	ended *fault.Fault // by which its latest boot with an offer ended; nil of one that did not
	// dialling ends the dial-back under way; nil where there is none.
	dialling context.CancelFunc
}

// life is what one boot of a node has said.
type life struct {
	boot      id.BootID
	addresses []string // where to dial it, the best first
	version   string
	platform  string
	sequence  uint64 // of its latest report
	available *controlpb.NodeAvailable
	faulted   *controlpb.NodeFaulted
	facts     *controlpb.Facts
	unfit     *fault.Fault // why its latest stage was not admitted; nil since one was
	offer     *offer       // what its operator chose to hold; nil: nothing, or not any more
	phase     string       // of the node, by its own word
	retired   bool         // it left, or another took its place
	refused   *fault.Fault

	asking  bool   // a ping is out
	telling bool   // its peers are being told
	told    uint64 // version of the peers it knows
	answer  time.Duration
	figures *controlpb.StageFigures // with the latest answer; nil where it held no stage
}

// mostLives bounds the ledger of a node: a newcomer beside the holder, and
// former ones to be told from new ones.
const mostLives = 8

func newNode(n store.Node) *node { return &node{Node: n} }

// life finds a boot's, and makes it where it is new.
func (n *node) life(boot id.BootID) *life {
	if l := n.known(boot); l != nil {
		return l
	}
	if len(n.lives) == mostLives {
		n.lives = slices.Delete(n.lives, 0, 1)
	}
	l := &life{boot: boot}
	n.lives = append(n.lives, l)
	return l
}

// known finds a boot's life, nil where it has not been heard of.
func (n *node) known(boot id.BootID) *life {
	for _, l := range n.lives {
		if l.boot == boot {
			return l
		}
	}
	return nil
}

// acknowledged reports whether the boot has said hello and counts.
func (l *life) acknowledged() bool { return l != nil && len(l.addresses) > 0 && !l.retired }

func (l *life) address() string {
	if len(l.addresses) == 0 {
		return ""
	}
	return l.addresses[0]
}

// label names a node for people.
func (n *node) label() string {
	if n.Name != "" {
		return n.Name
	}
	return n.ID.Short()
}

func (m *mailbox) label(n id.NodeID) string {
	if known := m.nodes[n]; known != nil {
		return known.label()
	}
	return n.Short()
}

// holders are the boots that count, by node.
func (m *mailbox) holders() map[id.NodeID]gate.Booted {
	all := map[id.NodeID]gate.Booted{}
	for _, b := range m.gate.Members() {
		all[b.Node] = b
	}
	return all
}

// living is the ledger of the boot that counts; nil where none does or it has
// not said hello.
func (m *mailbox) living(b gate.Booted) *life {
	n := m.nodes[b.Node]
	if n == nil || b.Boot.IsZero() {
		return nil
	}
	return n.known(b.Boot)
}

// introduce lets the endpoint know the pool and where it is, and has all nodes
// told of one another.
func (m *mailbox) introduce() {
	holders := m.holders()
	permitted := map[id.NodeID][]string{}
	for of, n := range m.nodes {
		permitted[of] = n.Addresses
		if l := m.living(holders[of]); l != nil && len(l.addresses) > 0 {
			permitted[of] = l.addresses
		}
	}
	m.o.endpoint.Permit(m.pool.Epoch, permitted)
	m.peers++
}

// acquaintances are the nodes of the pool as nodes are told of them.
func (m *mailbox) acquaintances() []*controlpb.Peer {
	holders := m.holders()
	var all []*controlpb.Peer
	for _, n := range m.pool.Nodes {
		p := &controlpb.Peer{NodeId: controlpb.ID(n.ID), Addresses: n.Addresses, Name: n.Name}
		if l := m.living(holders[n.ID]); l != nil && len(l.addresses) > 0 {
			p.Addresses = l.addresses
		}
		all = append(all, p)
	}
	return all
}

func (n *node) stopDialling() {
	if n.dialling != nil {
		n.dialling()
		n.dialling = nil
	}
}
