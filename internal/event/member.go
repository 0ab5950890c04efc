package event

import (
	"muster/internal/fault"
	"muster/internal/id"
)

// MemberStateChanged: SWIM has a node in another state, or another boot of it.
type MemberStateChanged struct {
	Node        id.NodeID `json:"node"`
	Boot        id.BootID `json:"boot"`
	State       string    `json:"state"`  // alive, suspect, dead, left; unknown: lost sight of
	Former      string    `json:"former"` // of the same boot; unknown where it is new
	Incarnation uint32    `json:"incarnation"`
}

// MemberViewLost: the SWIM view can no longer be read; it is tried again.
type MemberViewLost struct {
	Fault *fault.Fault `json:"fault"`
}

// Name implements Event.
func (MemberStateChanged) Name() string { return "member.state_changed" }

// Name implements Event.
func (MemberViewLost) Name() string { return "member.view_lost" }
