package gate

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Event is what the gate is told. Facts of nodes carry the boot they are of.
type Event interface{ event() }

// Member is a candidate as the operator defined it.
type Member struct {
	ID   id.NodeID
	Name string // for people; may be empty
}

// PoolDefined: the operator's pool is now this. Only a higher epoch counts.
// Facts of members that stay are kept; AskFacts asks for those of new ones. The
// gate keeps Members: it must not change afterwards.
type PoolDefined struct {
	Epoch   uint64
	Members []Member
}

// NodeKnown: the orchestrator has acknowledged the node's id and boot for this
// pool; the node is to be reached at Endpoint.
type NodeKnown struct {
	Node     id.NodeID
	Boot     id.BootID
	Endpoint string
}

// SwimState is what the SWIM view says of a node.
type SwimState uint8

// The states, in the order in which one overrides another at the same
// incarnation.
const (
	SwimUnknown SwimState = iota // not in the view
	SwimAlive
	SwimSuspect
	SwimDead
	SwimLeft
)

func (s SwimState) String() string {
	return [...]string{"unknown", "alive", "suspect", "dead", "left"}[min(s, SwimLeft)]
}

// SwimSeen: the SWIM view has the node in this state. SwimUnknown says that the
// view no longer holds it; incarnations then start anew.
type SwimSeen struct {
	Node        id.NodeID
	Boot        id.BootID
	State       SwimState
	Incarnation uint32
}

// NodeAvailable: the node's boot attempt has proven all its facts. Attempts of
// a boot count from 1.
type NodeAvailable struct {
	Node    id.NodeID
	Boot    id.BootID
	Attempt uint32
}

// NodeFaulted: the attempt has failed, or lost a resource after it had become
// available. It is final for the attempt.
type NodeFaulted struct {
	Node    id.NodeID
	Boot    id.BootID
	Attempt uint32
	Fault   *fault.Fault // nil is allowed and says nothing
}

// EndpointDialled answers DialBack: a handshake at Endpoint met the node's key
// (Fault nil), or did not.
type EndpointDialled struct {
	Node     id.NodeID
	Boot     id.BootID
	Endpoint string
	Fault    *fault.Fault
}

// ContactMade: the node itself answered something, Age ago.
type ContactMade struct {
	Node id.NodeID
	Boot id.BootID
	Age  time.Duration
}

// NonceAnswered: the node has sent back the nonce of this round.
type NonceAnswered struct {
	Node  id.NodeID
	Boot  id.BootID
	Round uint64
}

// HolderAnswered: the boot that holds an id still answers.
type HolderAnswered struct {
	Ask  uint64
	Boot id.BootID
}

// HolderGone: the boot that held an id said that it leaves, or its address
// refuses. Silence needs no event: it has a deadline.
type HolderGone struct {
	Ask  uint64
	Boot id.BootID
}

// ViewRead: the SWIM view was read whole, just now.
type ViewRead struct{}

// HealthSeen: the orchestrator's own health. While it is bad no loss is blamed
// on a node, so Bad is for what the loss of a few nodes does not explain: probes
// of one dead node worsen memberlist's score too.
type HealthSeen struct{ Bad bool }

// CommitAsked: a plan wants the pool for Run. It is granted only while the
// PoolReady it was made from stands: same epoch and round, same boots.
type CommitAsked struct {
	Run   id.RunID
	Epoch uint64
	Round uint64
	Nodes []Booted // the nodes that the plan needs, at least one
}

// RunEnded: the run has been torn down, whatever its outcome.
type RunEnded struct{ Run id.RunID }

// FormationAsked: form the pool again after an abort.
type FormationAsked struct{}

// Tick: time has passed. It answers Wake.
type Tick struct{}

func (PoolDefined) event()     {}
func (NodeKnown) event()       {}
func (SwimSeen) event()        {}
func (NodeAvailable) event()   {}
func (NodeFaulted) event()     {}
func (EndpointDialled) event() {}
func (ContactMade) event()     {}
func (NonceAnswered) event()   {}
func (HolderAnswered) event()  {}
func (HolderGone) event()      {}
func (ViewRead) event()        {}
func (HealthSeen) event()      {}
func (CommitAsked) event()     {}
func (RunEnded) event()        {}
func (FormationAsked) event()  {}
func (Tick) event()            {}

// Events returns one event of each kind, in the order of the page.
func Events() []Event {
	return []Event{
		PoolDefined{},
		NodeKnown{},
		SwimSeen{},
		NodeAvailable{},
		NodeFaulted{},
		EndpointDialled{},
		ContactMade{},
		NonceAnswered{},
		HolderAnswered{},
		HolderGone{},
		ViewRead{},
		HealthSeen{},
		CommitAsked{},
		RunEnded{},
		FormationAsked{},
		Tick{},
	}
}
