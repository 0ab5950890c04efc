package member

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"

	"muster/internal/id"
)

func reading(n id.NodeID, b id.BootID, s State, incarnation, raises uint32) row {
	return row{Name: n.String(), Incarnation: incarnation, State: statesOfLibrary[s], Meta: meta{boot: b, raises: raises}.encode()}
}

var statesOfLibrary = map[State]memberlist.NodeStateType{
	Alive: memberlist.StateAlive, Suspect: memberlist.StateSuspect, Dead: memberlist.StateDead, Left: memberlist.StateLeft,
}

func TestTable(t *testing.T) {
	n, b := numbered(1)
	_, later := numbered(9)
	type step struct {
		rows []row
		want []Fact // Sequence, Node and At are checked beside
	}
	one := func(boot id.BootID, s State, incarnation, raises uint32) []row {
		return []row{reading(n, boot, s, incarnation, raises)}
	}
	fact := func(boot id.BootID, former, s State, incarnation uint32) []Fact {
		return []Fact{{Boot: boot, Former: former, State: s, Incarnation: incarnation}}
	}
	for name, steps := range map[string][]step{
		"seen, and seen again": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{one(b, Alive, 1, 0), nil},
		},
		"suspect and refuted": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{one(b, Suspect, 1, 0), fact(b, Alive, Suspect, 1)},
			{one(b, Alive, 2, 0), fact(b, Suspect, Alive, 2)},
		},
		"a doubt between two readings": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{one(b, Alive, 2, 0), fact(b, Alive, Alive, 2)},
		},
		"its own raise is no doubt": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{one(b, Alive, 2, 1), nil},
			{one(b, Alive, 4, 2), fact(b, Alive, Alive, 2)},
		},
		"its own raise ends a doubt": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{one(b, Suspect, 1, 0), fact(b, Alive, Suspect, 1)},
			{one(b, Alive, 2, 1), fact(b, Suspect, Alive, 2)},
			{one(b, Suspect, 2, 1), fact(b, Alive, Suspect, 2)},
			{one(b, Alive, 3, 1), fact(b, Suspect, Alive, 3)},
		},
		"dead, forgotten by the library, back at incarnation 1": {
			{one(b, Alive, 3, 0), fact(b, Unknown, Alive, 3)},
			{one(b, Dead, 3, 0), fact(b, Alive, Dead, 3)},
			{nil, nil},
			{one(b, Alive, 1, 0), fact(b, Dead, Alive, 4)},
			{one(b, Alive, 2, 0), fact(b, Alive, Alive, 5)},
		},
		"lost sight of": {
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 1)},
			{nil, fact(b, Alive, Unknown, 1)},
			{nil, nil},
			{one(b, Alive, 1, 0), fact(b, Unknown, Alive, 2)},
		},
		"another boot": {
			{one(b, Alive, 5, 0), fact(b, Unknown, Alive, 5)},
			{one(later, Alive, 6, 0), fact(later, Unknown, Alive, 6)},
			{one(later, Left, 6, 0), fact(later, Alive, Left, 6)},
			{nil, nil},
		},
		"claims beyond reason": {
			{one(b, Alive, 1, math.MaxUint32), fact(b, Unknown, Alive, 1)},
			{one(b, Suspect, math.MaxUint32, 0), fact(b, Alive, Suspect, math.MaxUint32)},
			{one(b, Alive, math.MaxUint32, 0), fact(b, Suspect, Alive, math.MaxUint32)},
		},
		"no node, no meta, no boot": {
			{[]row{{Name: "somebody", Meta: meta{boot: b}.encode()}, {Name: n.String()}, {Name: n.String(), Meta: meta{}.encode()}}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, sequence := newTable(), uint64(0)
			for i, s := range steps {
				at := time.Unix(int64(i), 0)
				for j := range s.want {
					sequence++
					s.want[j].Sequence, s.want[j].Node, s.want[j].At = sequence, n, at
				}
				if got := table.take(s.rows, id.NodeID{7}, at); !slices.Equal(got, s.want) {
					t.Fatalf("step %d told\n%+v, want\n%+v", i, got, s.want)
				}
			}
		})
	}
}

func TestOnlyPeersHaveRows(t *testing.T) {
	table, self := newTable(), id.NodeID{7}
	a, bootA := numbered(1)
	b, bootB := numbered(2)
	_, bootSelf := numbered(7)
	rows := []row{reading(a, bootA, Alive, 1, 0), reading(b, bootB, Alive, 1, 0), reading(self, bootSelf, Alive, 1, 0)}
	table.restrict([]id.NodeID{a}, self, time.Unix(1, 0))
	if v := table.view(); len(v.Rows) != 1 || v.Rows[0].Node != a || v.Rows[0].State != Unknown || !v.Rows[0].Boot.IsZero() {
		t.Errorf("before any reading: %+v", v)
	}
	if got := table.take(rows, self, time.Unix(2, 0)); len(got) != 2 {
		t.Errorf("told %+v", got)
	}
	table.restrict([]id.NodeID{b}, self, time.Unix(3, 0))
	if _, ok := table.view().Row(a); ok {
		t.Error("a removed peer keeps its row")
	}
	if missing := table.missing(self); !slices.Equal(missing, []id.NodeID{b}) {
		t.Errorf("missing %v", missing)
	}
	if got := table.take(rows, self, time.Unix(4, 0)); len(got) != 1 || got[0].Node != b || got[0].Sequence != 3 {
		t.Errorf("told %+v", got)
	}
}

func TestStrangersAreBounded(t *testing.T) {
	table := newTable()
	var rows []row
	for i := range mostMembers + 10 {
		n, b := id.NodeID{1, byte(i), byte(i >> 8)}, id.BootID{1}
		rows = append(rows, reading(n, b, Alive, 1, 0))
	}
	if facts := table.take(rows, id.NodeID{9}, time.Unix(1, 0)); len(facts) != mostMembers {
		t.Errorf("%d strangers have rows", len(facts))
	}
}

// Whatever the library says: facts of one boot keep their promises, and whoever
// has heard all facts knows the view.
func TestFactsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, self := newTable(), id.NodeID{200}
		told := map[id.NodeID]Fact{}
		var sequence uint64
		for step := range rapid.IntRange(1, 40).Draw(t, "readings") {
			var rows []row
			for i := byte(1); i <= 3; i++ {
				if !rapid.Bool().Draw(t, "present") {
					continue
				}
				n, _ := numbered(i)
				_, b := numbered(rapid.ByteRange(10, 12).Draw(t, "boot"))
				s := rapid.SampledFrom([]State{Alive, Suspect, Dead, Left}).Draw(t, "state")
				small := rapid.Uint32Range(0, 4)
				rows = append(rows, reading(n, b, s, small.Draw(t, "incarnation"), small.Draw(t, "raises")))
			}
			for _, f := range table.take(rows, self, time.Unix(int64(step), 0)) {
				sequence++
				last, known := told[f.Node]
				switch {
				case f.Sequence != sequence:
					t.Fatalf("sequence %d after %d", f.Sequence, sequence-1)
				case f.Boot.IsZero() || f.Incarnation == 0:
					t.Fatalf("an empty fact: %+v", f)
				case !known || last.Boot != f.Boot:
					if f.Former != Unknown {
						t.Fatalf("a new boot was something before: %+v", f)
					}
				case f.Former != last.State:
					t.Fatalf("%+v does not follow %+v", f, last)
				case f.Incarnation < last.Incarnation:
					t.Fatalf("%+v fell from %+v", f, last)
				case f.State == Alive && last.State != Alive && f.Incarnation == last.Incarnation:
					t.Fatalf("%+v is alive again and has not risen from %+v", f, last)
				case f.State == last.State && f.Incarnation == last.Incarnation:
					t.Fatalf("%+v says nothing new", f)
				}
				told[f.Node] = f
			}
			v := table.view()
			if v.Sequence != sequence || len(v.Rows) != len(told) {
				t.Fatalf("the view is %+v", v)
			}
			for _, r := range v.Rows {
				f := told[r.Node]
				if r.Boot != f.Boot || r.State != f.State || r.Incarnation != f.Incarnation {
					t.Fatalf("the view has %+v, the last fact was %+v", r, f)
				}
			}
		}
	})
}

func TestMetaRoundTrip(t *testing.T) {
	m := meta{boot: id.BootID{1, 2, 3}, epoch: math.MaxUint64 - 1, raises: 77}
	b := m.encode()
	if got, err := decodeMeta(b); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	newer := append(slices.Clone(b), 1, 2, 3)
	if _, err := decodeMeta(newer); err == nil {
		t.Error("version 1 with more than version 1 is read")
	}
	newer[0]++
	if got, err := decodeMeta(newer); err != nil || got != m {
		t.Errorf("a newer version that appends: %+v, %v", got, err)
	}
	for n := range b {
		if _, err := decodeMeta(b[:n]); err == nil {
			t.Errorf("%d bytes are read", n)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(meta{boot: id.BootID{1}, epoch: 2, raises: 3}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := decodeMeta(m.encode()); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
