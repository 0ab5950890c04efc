package gate

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Effect is what the gate's owner is to do, or to tell.
type Effect interface{ effect() }

// Booted is a node at one of its boots.
type Booted struct {
	Node     id.NodeID
	Boot     id.BootID
	Endpoint string // where it is to be reached; not compared at a commit
}

// PhaseChanged: the one announcement of a phase.
type PhaseChanged struct{ From, To Phase }

// Wake asks for a Tick at the instant At or soon after. The latest Wake is
// always the earliest: it replaces what was asked before.
type Wake struct{ At time.Duration }

// AskFacts asks for all that is known of these nodes: they are new to the pool,
// or another boot of theirs counts from now on.
type AskFacts struct{ Nodes []id.NodeID }

// DialBack asks to dial Endpoint until the node's key has been met there, the
// node is no candidate any more, or another DialBack of the node replaces this.
// Each try is told as EndpointDialled.
type DialBack struct{ Booted }

// AskHolder asks to send a nonce to the boot that holds an id, at its last
// address, since Rival claims the same id.
type AskHolder struct {
	Ask    uint64
	Holder Booted
	Rival  Booted
}

// RivalRefused: the holder answered, so Rival cannot have the id. Fault names
// both addresses and is for the rival.
type RivalRefused struct {
	Rival Booted
	Fault *fault.Fault
}

// BootReplaced: Former is void, Booted has the id.
type BootReplaced struct {
	Booted
	Former id.BootID
}

// AskNonce asks to send a fresh nonce to each member; an equal one that comes
// back is NonceAnswered of this round.
type AskNonce struct {
	Round   uint64
	Members []Booted
}

// PoolReady: the pool may be planned on, as long as this readiness stands.
type PoolReady struct {
	Epoch   uint64
	Round   uint64
	Members []Booted
}

// PoolLost: readiness was lost before a plan was committed.
type PoolLost struct {
	Epoch uint64
	Fault *fault.Fault
}

// PoolAborted: the formation has ended without a run.
type PoolAborted struct {
	Epoch uint64
	Fault *fault.Fault
}

// PoolRefused: a definition was not sound; the former one stands.
type PoolRefused struct {
	Epoch uint64
	Fault *fault.Fault
}

// CommitGranted: the pool is the run's, and provisioning may begin.
type CommitGranted struct{ Run id.RunID }

// CommitRefused: the readiness that the plan was made from does not stand.
type CommitRefused struct {
	Run   id.RunID
	Fault *fault.Fault
}

// RunFaulted: the first loss of a node that the run needs. Node is none where
// the orchestrator itself was starved.
type RunFaulted struct {
	Run   id.RunID
	Node  id.NodeID
	Fault *fault.Fault
}

func (PhaseChanged) effect()  {}
func (Wake) effect()          {}
func (AskFacts) effect()      {}
func (DialBack) effect()      {}
func (AskHolder) effect()     {}
func (RivalRefused) effect()  {}
func (BootReplaced) effect()  {}
func (AskNonce) effect()      {}
func (PoolReady) effect()     {}
func (PoolLost) effect()      {}
func (PoolAborted) effect()   {}
func (PoolRefused) effect()   {}
func (CommitGranted) effect() {}
func (CommitRefused) effect() {}
func (RunFaulted) effect()    {}
