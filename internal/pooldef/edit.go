package pooldef

import (
	"slices"
	"strings"

	"muster/internal/fault"
	"muster/internal/id"
)

// ParseNode reads ID or ID=NAME.
func ParseNode(word string) (n Node, err error) {
	text, name, _ := strings.Cut(word, "=")
	n.Name = name
	n.ID, err = id.ParseNodeID(text)
	return n, err
}

// Add returns the definition with more nodes at its end. One that stands in it
// already as it is named, or is named by its id alone, changes nothing.
// Fault: store.pool_invalid.
func (p Pool) Add(nodes ...Node) (Pool, error) {
	p.Nodes = slices.Clone(p.Nodes)
	for _, n := range nodes {
		i := p.index(n.ID)
		if i >= 0 && (n.equal(p.Nodes[i]) || n.equal(Node{ID: n.ID}) || n.equal(Node{ID: n.ID, Name: p.Nodes[i].Name})) {
			continue
		}
		p.Nodes = append(p.Nodes, n)
	}
	return p, p.Check()
}

// Remove returns the definition without the nodes that words name, each by id,
// name or short id. Fault: pool.entry_unknown.
func (p Pool) Remove(words ...string) (Pool, error) {
	goes := map[id.NodeID]bool{}
	for _, w := range words {
		i, err := p.find(w)
		if err != nil {
			return Pool{}, err
		}
		goes[p.Nodes[i].ID] = true
	}
	p.Nodes = slices.DeleteFunc(slices.Clone(p.Nodes), func(n Node) bool { return goes[n.ID] })
	return p, nil
}

// Replace returns the definition with another node in the place of one, as when
// a key was lost. The place stays, and so does the name where the newcomer
// brings none; addresses do not. Faults: pool.entry_unknown, store.pool_invalid.
func (p Pool) Replace(word string, by Node) (Pool, error) {
	i, err := p.find(word)
	if err != nil {
		return Pool{}, err
	}
	if by.Name == "" {
		by.Name = p.Nodes[i].Name
	}
	if by.ID == p.Nodes[i].ID && by.Addresses == nil {
		by.Addresses = p.Nodes[i].Addresses // it is only renamed
	}
	p.Nodes = slices.Clone(p.Nodes)
	p.Nodes[i] = by
	return p, p.Check()
}

func (p Pool) index(n id.NodeID) int {
	return slices.IndexFunc(p.Nodes, func(o Node) bool { return o.ID == n })
}

// find is the place of the node that a word names: its id before its name
// before its short id.
func (p Pool) find(word string) (int, error) {
	for _, named := range []func(Node) bool{
		func(n Node) bool { return n.ID.String() == word },
		func(n Node) bool { return n.Name != "" && n.Name == word },
		func(n Node) bool { return n.ID.Short() == word },
	} {
		if i := slices.IndexFunc(p.Nodes, named); i >= 0 {
			return i, nil
		}
	}
	return -1, fault.New(fault.PoolEntryUnknown, component, "node", word, "pool", p.Name)
}
