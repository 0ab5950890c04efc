package member

import (
	"time"

	"muster/internal/id"
)

// State is what SWIM says of a node.
type State uint8

// The states, in the order in which one overrides another at the same
// incarnation.
const (
	Unknown State = iota // not seen yet, or no longer by the library
	Alive
	Suspect
	Dead
	Left
)

var stateNames = [...]string{"unknown", "alive", "suspect", "dead", "left"}

func (s State) String() string { return stateNames[min(s, Left)] }

// MarshalText writes the state as String does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Fact is one node's row as it has just become.
type Fact struct {
	// Sequence rises by one from fact to fact. Whoever finds a gap has missed
	// some and reads View.
	Sequence    uint64
	Node        id.NodeID
	Boot        id.BootID
	State       State
	Former      State     // of the same boot; Unknown where the boot is new here
	Incarnation uint32    // of this boot, as seen here: never falls, and rises only by a doubt
	Epoch       uint64    // of the pool, as the node has been told
	At          time.Time // when it was seen; monotonic
}

// Row is one node as the table has it.
type Row struct {
	Node        id.NodeID
	Boot        id.BootID // none: never seen
	State       State
	Incarnation uint32
	Epoch       uint64
	Since       time.Time // of this state of this boot; monotonic
}

// View is the whole table, by node id.
type View struct {
	Sequence uint64    // of the last fact told
	Read     time.Time // when the library's view was last read; zero: never
	Rows     []Row
}

// Row finds a node's row.
func (v View) Row(node id.NodeID) (Row, bool) {
	for _, r := range v.Rows {
		if r.Node == node {
			return r, true
		}
	}
	return Row{}, false
}
