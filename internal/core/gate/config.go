package gate

import (
	"time"

	"muster/internal/id"
)

// Policy says what becomes of a formation whose readiness is lost before a
// plan is committed.
type Policy uint8

// The policies.
const (
	Wait  Policy = iota // form again, until the formation deadline
	Abort               // give up at once, until a formation is asked for
)

func (p Policy) String() string { return [...]string{"wait", "abort"}[p] }

// Config is the gate's figures. Durations are positive, except Formation.
type Config struct {
	Self       id.NodeID     // the orchestrator's own id, never a candidate
	Window     time.Duration // without a change before the closing question
	Nonce      time.Duration // within which every candidate answers it
	Contact    time.Duration // oldest answer of a node that still counts
	View       time.Duration // oldest reading of the SWIM view that still counts
	Holder     time.Duration // within which the holder of an id answers a rival's coming
	Rival      time.Duration // after which a rival not heard of is forgotten
	Beat       time.Duration // longest time between two ticks
	Late       time.Duration // a tick later than this means the orchestrator was starved
	Formation  time.Duration // to become ready, from each start of a formation; 0 means without end
	LossPolicy Policy
}

// Local, LAN and WAN are the figures that fit the membership profiles of the
// same names. Window is the floor that a profile's probes and gossip need:
// 6 probe intervals and 4 gossip intervals.
func Local() Config {
	return Config{
		Window: 1400 * time.Millisecond, Nonce: 500 * time.Millisecond, Contact: time.Second, View: time.Second,
		Holder: 500 * time.Millisecond, Rival: 10 * time.Second, Beat: 100 * time.Millisecond, Late: time.Second,
	}
}

// LAN are the figures for machines of one network.
func LAN() Config {
	return Config{
		Window: 6800 * time.Millisecond, Nonce: 2 * time.Second, Contact: 4 * time.Second, View: 3 * time.Second,
		Holder: 500 * time.Millisecond, Rival: 20 * time.Second, Beat: 250 * time.Millisecond, Late: time.Second,
	}
}

// WAN are the figures for machines far from one another.
func WAN() Config {
	return Config{
		Window: 32 * time.Second, Nonce: 5 * time.Second, Contact: 15 * time.Second, View: 10 * time.Second,
		Holder: 500 * time.Millisecond, Rival: 60 * time.Second, Beat: 500 * time.Millisecond, Late: time.Second,
	}
}

// floored returns c with every duration that is not positive set to that of
// LAN: a zero bound would let a fact count for ever or never.
func (c Config) floored() Config {
	lan := LAN()
	for _, f := range []struct{ have, want *time.Duration }{
		{&c.Window, &lan.Window},
		{&c.Nonce, &lan.Nonce},
		{&c.Contact, &lan.Contact},
		{&c.View, &lan.View},
		{&c.Holder, &lan.Holder},
		{&c.Rival, &lan.Rival},
		{&c.Beat, &lan.Beat},
		{&c.Late, &lan.Late},
	} {
		if *f.have <= 0 {
			*f.have = *f.want
		}
	}
	return c
}
