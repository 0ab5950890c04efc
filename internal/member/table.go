package member

import (
	"maps"
	"math"
	"slices"
	"time"

	"muster/internal/id"
)

// table is what is known of each node. It is a value with no lock, clock or
// goroutine; the member holds its lock.
type table struct {
	sequence uint64
	read     time.Time
	entries  map[id.NodeID]*entry
	peers    map[id.NodeID]bool // that count; nil: any
}

type entry struct {
	Row
	shift  uint64 // added to the library's incarnation, so that it keeps its promise
	absent bool   // from the last reading
}

func newTable() *table { return &table{entries: map[id.NodeID]*entry{}} }

// counts reports whether a node may have a row.
func (t *table) counts(node, self id.NodeID) bool {
	if node == self || t.peers[node] {
		return true
	}
	return t.peers == nil && (t.entries[node] != nil || len(t.entries) < mostMembers)
}

// restrict lets only these nodes have rows, and gives each one.
func (t *table) restrict(peers []id.NodeID, self id.NodeID, now time.Time) {
	t.peers = make(map[id.NodeID]bool, len(peers))
	for _, p := range peers {
		t.peers[p] = true
	}
	t.expect(peers, now)
	maps.DeleteFunc(t.entries, func(node id.NodeID, _ *entry) bool { return node != self && !t.peers[node] })
}

// expect gives each node that counts a row before it has been seen.
func (t *table) expect(nodes []id.NodeID, now time.Time) {
	for _, n := range nodes {
		if t.entries[n] == nil && (t.peers == nil || t.peers[n]) {
			t.entries[n] = &entry{Row: Row{Node: n, Since: now}, absent: true}
		}
	}
}

// take compares a reading with the table and returns what is new.
func (t *table) take(rows []row, self id.NodeID, now time.Time) []Fact {
	t.read = now
	for _, e := range t.entries {
		e.absent = true
	}
	var facts []Fact
	for _, r := range rows {
		node, err := id.ParseNodeID(r.Name)
		if err != nil || !t.counts(node, self) {
			continue
		}
		m, err := decodeMeta(r.Meta)
		if err != nil {
			continue
		}
		e := t.entries[node]
		if e == nil {
			e = &entry{Row: Row{Node: node}}
			t.entries[node] = e
		}
		e.absent = false
		if former, changed := e.hear(stateOf(r.State), r.Incarnation, m, now); changed {
			facts = append(facts, t.fact(e, former, now))
		}
	}
	return append(facts, t.forgotten(now)...)
}

// forgotten are facts about nodes that the library no longer has. It drops
// only the dead, so one that was not was lost while nobody looked; the dead and
// the left stay what they are.
func (t *table) forgotten(now time.Time) []Fact {
	var facts []Fact
	for _, e := range t.entries {
		if e.absent && (e.State == Alive || e.State == Suspect) {
			former := e.State
			e.State, e.Since = Unknown, now
			facts = append(facts, t.fact(e, former, now))
		}
	}
	return facts
}

func (t *table) fact(e *entry, former State, now time.Time) Fact {
	t.sequence++
	return Fact{
		Sequence: t.sequence, Node: e.Node, Boot: e.Boot, State: e.State, Former: former,
		Incarnation: e.Incarnation, Epoch: e.Epoch, At: now,
	}
}

// hear takes what a reading says of the node; former is the state it was in.
func (e *entry) hear(s State, incarnation uint32, m meta, now time.Time) (former State, changed bool) {
	fresh := uint64(1) // a peer may claim more raises than it has made
	if incarnation > m.raises {
		fresh = uint64(incarnation - m.raises)
	}
	if e.Boot != m.boot {
		e.Row = Row{Node: e.Node, Boot: m.boot, State: s, Incarnation: uint32(fresh), Epoch: m.epoch, Since: now}
		e.shift = 0
		return Unknown, true
	}
	former, least := e.State, uint64(e.Incarnation)
	if s == Alive && former != Alive {
		least++
	}
	if fresh+e.shift < least {
		e.shift = least - fresh
	}
	told := uint32(min(fresh+e.shift, math.MaxUint32))
	changed = s != former || told != e.Incarnation || m.epoch != e.Epoch
	if s != former {
		e.Since = now
	}
	e.State, e.Incarnation, e.Epoch = s, told, m.epoch
	return former, changed
}

// view copies the table.
func (t *table) view() View {
	v := View{Sequence: t.sequence, Read: t.read, Rows: make([]Row, 0, len(t.entries))}
	for _, e := range t.entries {
		v.Rows = append(v.Rows, e.Row)
	}
	slices.SortFunc(v.Rows, func(a, b Row) int { return a.Node.Compare(b.Node) })
	return v
}

// missing are the nodes that are neither alive nor doubted.
func (t *table) missing(self id.NodeID) []id.NodeID {
	var nodes []id.NodeID
	for node, e := range t.entries {
		if node != self && (e.State != Alive && e.State != Suspect) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
