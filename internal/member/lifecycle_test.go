package member_test

import (
	"strings"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
)

func TestCallsBeforeStartAndAfterClose(t *testing.T) {
	m, err := member.New(member.Config{Self: id.NodeID{1}, Boot: id.BootID{1}, Profile: member.Local()})
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		wants(t, m.Join(within(t, wait), []id.NodeID{{2}}), fault.MemberClosed)
		wants(t, m.Leave(within(t, wait)), fault.MemberClosed)
		wants(t, m.SetEpoch(3), fault.MemberClosed)
		m.SetPeers([]id.NodeID{{2}})
		if r, ok := m.View().Row(id.NodeID{2}); !ok || r.State != member.Unknown {
			t.Errorf("a peer is %+v", r)
		}
		if !m.Health().Closed {
			t.Error("it runs")
		}
	}
	check()
	for range 2 {
		if err := m.Close(within(t, wait)); err != nil {
			t.Fatal(err)
		}
		check()
	}
	wants(t, m.Start(member.Network{}), fault.MemberClosed)
	m.Datagram(id.NodeID{2}, []byte("late"))

	n := open(t)
	wants(t, n.Start(member.Network{}), fault.MemberConfigInvalid, "twice")
}

func TestLeavingAloneIsDoneAtOnce(t *testing.T) {
	n := open(t)
	if err := n.Leave(within(t, wait)); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	sound := member.Config{Self: id.NodeID{1}, Boot: id.BootID{1}, Pool: "p", Profile: member.LAN()}
	for what, spoil := range map[string]func(*member.Config){
		"node id": func(c *member.Config) { c.Self = id.NodeID{} },
		"boot id": func(c *member.Config) { c.Boot = id.BootID{} },
		"pool":    func(c *member.Config) { c.Pool = strings.Repeat("p", 256) },
		"profile": func(c *member.Config) { c.Profile.ProbeInterval = 0 },
	} {
		c := sound
		spoil(&c)
		_, err := member.New(c)
		wants(t, err, fault.MemberConfigInvalid, what)
	}
}

func TestProfiles(t *testing.T) {
	for name, floor := range map[string]time.Duration{"local": 1400 * time.Millisecond, "lan": 6800 * time.Millisecond, "wan": 32 * time.Second} {
		p, err := member.ParseProfile(name)
		if err != nil || p.Name != name || p.Floor() != floor {
			t.Errorf("%s: %+v, floor %s, %v", name, p, p.Floor(), err)
		}
		for asked, want := range map[time.Duration]time.Duration{0: floor, floor: floor, floor + 1: floor + 1} {
			if got, err := p.Window(asked); err != nil || got != want {
				t.Errorf("%s: a window of %s became %s, %v", name, asked, got, err)
			}
		}
		_, err = p.Window(floor - 1)
		wants(t, err, fault.MemberWindowInvalid, name, floor.String(), p.ProbeInterval.String())
	}
	_, err := member.ParseProfile("space")
	wants(t, err, fault.MemberProfileUnknown, "space", "local", "lan", "wan")
}

// The endpoint fits without either package importing the other.
var _ = member.Over[endpoint.Stream]

func TestStatesHaveNames(t *testing.T) {
	for s, want := range map[member.State]string{
		member.Unknown: "unknown", member.Alive: "alive", member.Suspect: "suspect", member.Dead: "dead", member.Left: "left", 9: "left",
	} {
		if s.String() != want {
			t.Errorf("%d is %s", s, s)
		}
	}
}
