package member

import (
	"time"

	"github.com/hashicorp/memberlist"

	"muster/internal/fault"
)

// Profile is how often members probe and gossip, and what follows from it. All
// members of a pool have the same one.
type Profile struct {
	Name           string
	ProbeInterval  time.Duration // one node is probed in each
	ProbeTimeout   time.Duration // until others are asked to probe it too
	GossipInterval time.Duration
	PushPull       time.Duration // between exchanges of the whole view with one other
	Suspicion      int           // probe intervals, times log10 of the members, until a suspect is dead
	StreamTimeout  time.Duration // of one push/pull
	Remember       time.Duration // how long the library keeps the dead
	Poll           time.Duration // the view is read at least this often
	Rejoin         time.Duration // between attempts to reach peers that are not alive
}

// Local is for processes on one machine.
func Local() Profile {
	return Profile{
		Name: "local", ProbeInterval: 200 * time.Millisecond, ProbeTimeout: 100 * time.Millisecond, GossipInterval: 50 * time.Millisecond,
		PushPull: 5 * time.Second, Suspicion: 4, StreamTimeout: 2 * time.Second, Remember: 30 * time.Second,
		Poll: 250 * time.Millisecond, Rejoin: time.Second,
	}
}

// LAN is for machines of one network.
func LAN() Profile {
	return Profile{
		Name: "lan", ProbeInterval: time.Second, ProbeTimeout: 500 * time.Millisecond, GossipInterval: 200 * time.Millisecond,
		PushPull: 30 * time.Second, Suspicion: 4, StreamTimeout: 10 * time.Second, Remember: 30 * time.Second,
		Poll: 750 * time.Millisecond, Rejoin: 5 * time.Second,
	}
}

// WAN is for machines far from one another.
func WAN() Profile {
	return Profile{
		Name: "wan", ProbeInterval: 5 * time.Second, ProbeTimeout: 3 * time.Second, GossipInterval: 500 * time.Millisecond,
		PushPull: time.Minute, Suspicion: 6, StreamTimeout: 30 * time.Second, Remember: time.Minute,
		Poll: 2500 * time.Millisecond, Rejoin: 15 * time.Second,
	}
}

// ParseProfile finds a profile by its name. Faults: member.profile_unknown.
func ParseProfile(name string) (Profile, error) {
	for _, p := range []Profile{Local(), LAN(), WAN()} {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fault.New(fault.MemberProfileUnknown, component, "profile", name)
}

// Floor is the shortest convergence window in which every member can have
// been probed and doubts of it have spread: 6 probe and 4 gossip intervals,
// measured.
func (p Profile) Floor() time.Duration { return 6*p.ProbeInterval + 4*p.GossipInterval }

// Window checks a convergence window against the floor; zero means the floor.
// Faults: member.window_invalid.
func (p Profile) Window(asked time.Duration) (time.Duration, error) {
	switch floor := p.Floor(); {
	case asked == 0:
		return floor, nil
	case asked < floor:
		return 0, fault.New(fault.MemberWindowInvalid, component,
			"window", asked, "profile", p.Name, "floor", floor, "probe", p.ProbeInterval, "gossip", p.GossipInterval)
	default:
		return asked, nil
	}
}

// sound reports whether the profile can be run with.
func (p Profile) sound() bool {
	for _, d := range []time.Duration{
		p.ProbeInterval, p.ProbeTimeout, p.GossipInterval, p.PushPull, p.StreamTimeout, p.Remember, p.Poll, p.Rejoin,
	} {
		if d <= 0 {
			return false
		}
	}
	return p.Suspicion >= 1 && p.ProbeTimeout <= p.ProbeInterval
}

// apply sets the library's figures.
func (p Profile) apply(c *memberlist.Config) {
	c.ProbeInterval, c.ProbeTimeout, c.GossipInterval = p.ProbeInterval, p.ProbeTimeout, p.GossipInterval
	c.PushPullInterval, c.TCPTimeout, c.GossipToTheDeadTime = p.PushPull, p.StreamTimeout, p.Remember
	c.SuspicionMult = p.Suspicion
}
