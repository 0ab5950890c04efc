// Package pooldef is an operator's definition of a pool: which nodes are
// intended. It knows how a definition is checked, edited and written as a file;
// it knows nothing of nodes that live, and keeps nothing.
package pooldef

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/internal/fault"
	"muster/internal/id"
)

const component = "pool"

// Pool is the set of nodes that an operator intends.
type Pool struct {
	Name  string `json:"name"`
	Epoch uint64 `json:"epoch"` // rises by 1 with each change, from 1; 0 where it is not stored yet
	Nodes []Node `json:"nodes"` // in the operator's order; may be empty
}

// Node is one candidate of a pool.
type Node struct {
	ID        id.NodeID `json:"id"`
	Name      string    `json:"name,omitempty"`      // "" where it has none
	Addresses []string  `json:"addresses,omitempty"` // host:port, the best first; none where the node finds us
}

func (n Node) equal(o Node) bool {
	return n.ID == o.ID && n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses)
}

// Same reports whether two definitions intend the same, whatever their epochs.
func (p Pool) Same(o Pool) bool {
	return p.Name == o.Name && slices.EqualFunc(p.Nodes, o.Nodes, Node.equal)
}

// Check refuses what no pool can be. Fault: store.pool_invalid.
func (p Pool) Check() error {
	if what := p.flaw(); what != "" {
		return fault.New(fault.StorePoolInvalid, component, "pool", p.Name, "what", what)
	}
	return nil
}

func (p Pool) flaw() string {
	if p.Name == "" {
		return "it has no name"
	}
	if what := nameFlaw(p.Name); what != "" {
		return fmt.Sprintf("the name %q %s", p.Name, what)
	}
	ids, names := map[id.NodeID]bool{}, map[string]bool{}
	for i, n := range p.Nodes {
		what := n.flaw()
		switch {
		case n.ID.IsZero():
			return fmt.Sprintf("node %d has no id", i+1)
		case ids[n.ID]:
			return "two nodes have the id " + n.ID.String()
		case n.Name != "" && names[n.Name]:
			return "two nodes have the name " + n.Name
		case what != "":
			return what
		}
		ids[n.ID], names[n.Name] = true, true
	}
	return ""
}

func (n Node) flaw() string {
	if what := nameFlaw(n.Name); what != "" {
		return fmt.Sprintf("the name %q of node %s %s", n.Name, n.ID.Short(), what)
	}
	for _, a := range n.Addresses {
		host, port, err := net.SplitHostPort(a)
		number, notNumber := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || notNumber != nil || number == 0 {
			return fmt.Sprintf("the address %q of node %s is not HOST:PORT", a, n.ID.Short())
		}
	}
	return ""
}

// longestName is in bytes.
const longestName = 64

// nameFlaw says why a name would not do on a command line or in a table.
func nameFlaw(name string) string {
	switch {
	case len(name) > longestName:
		return fmt.Sprintf("is longer than %d bytes", longestName)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.HasPrefix(name, "-"):
		return "begins like a flag"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a space"
	case strings.ContainsFunc(name, func(r rune) bool { return r == '=' || r == ',' || !unicode.IsPrint(r) }):
		return "has a comma, an equals sign or what cannot be printed"
	}
	if _, err := id.ParseNodeID(name); err == nil {
		return "is a node's id"
	}
	return ""
}
