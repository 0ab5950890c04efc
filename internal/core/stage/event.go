package stage

import (
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Event is what the core is told.
type Event interface{ event() }

// Order is what a stage is known by. Attempt is the run's, from 1. An order of no
// run is an offer, whose attempts the node counts itself.
type Order struct {
	Run     id.RunID
	Attempt uint32
	Boot    id.BootID // of this node, as the orchestrator knows it
}

// Offer reports whether the node's operator gave the order, and no plan.
func (o Order) Offer() bool { return o.Run.IsZero() && o.Attempt > 0 }

// OfferAsked: hold this shard, which the node's operator chose, until a plan
// gives the node a stage. A node that holds something takes no offer.
type OfferAsked struct{ Order }

// AvailabilityChanged: node boot opened or closed provisioning. What an active
// stage rests on has gone when it is closed; Fault says how, or is nil.
type AvailabilityChanged struct {
	Available bool
	Fault     *fault.Fault
}

// ProvisionAsked: take this stage. Ask is answered by ProvisionAccepted or
// ProvisionRefused with the same number.
type ProvisionAsked struct {
	Order
	Ask    uint64
	DryRun bool
	Held   bool // what the node offers is just this shard
}

// Adopted answers Adopt: what the offer held is the order's.
type Adopted struct{ Order }

// Prepared answers Prepare: the rings are leased, and a worker that has proven
// itself is there, also where its start had been deferred.
type Prepared struct{ Order }

// WeightsProgressed: so many bytes of the slice lie verified.
type WeightsProgressed struct {
	Order
	Done uint64
}

// WeightsReady answers FetchWeights.
type WeightsReady struct{ Order }

// Loaded answers Load: the worker has loaded the slice and run it.
type Loaded struct{ Order }

// Admitted answers Admit: a real forward of this very shard was judged well, and
// the tracker holds a route to it.
type Admitted struct{ Order }

// RouteLost: the tracker holds no route to the shard any more. An offer that
// stands is examined and registered anew, once; a stage fails by it.
type RouteLost struct {
	Order
	Fault *fault.Fault
}

// Side is an end of the stage.
type Side uint8

// The sides.
const (
	In  Side = 1 // accepted from the stage before, or the orchestrator
	Out Side = 2 // opened to the stage after, or the orchestrator
)

func (s Side) String() string {
	switch s {
	case In:
		return "in"
	case Out:
		return "out"
	default:
		return "unknown"
	}
}

// EdgeJoined: the edge of a side is up. The stage before may be early.
type EdgeJoined struct {
	Order
	Side Side
}

// ServeAsked: every stage of the run is ready.
type ServeAsked struct{ Order }

// StageFailed: something of the stage has failed or gone, whatever it was: its
// weights, worker, its doctor, its route, a ring, an edge.
type StageFailed struct {
	Order
	Fault *fault.Fault
}

// TearDownAsked: free everything of this order. Answered by TornDown, also
// where there is nothing of it.
type TearDownAsked struct{ Order }

// PartDone confirms a part of the teardown.
type PartDone struct {
	Order
	Part Part
}

// Tick: time has passed. It answers Wake.
type Tick struct{}

func (AvailabilityChanged) event() {}
func (OfferAsked) event()          {}
func (ProvisionAsked) event()      {}
func (Adopted) event()             {}
func (Prepared) event()            {}
func (WeightsProgressed) event()   {}
func (WeightsReady) event()        {}
func (Loaded) event()              {}
func (Admitted) event()            {}
func (RouteLost) event()           {}
func (EdgeJoined) event()          {}
func (ServeAsked) event()          {}
func (StageFailed) event()         {}
func (TearDownAsked) event()       {}
func (PartDone) event()            {}
func (Tick) event()                {}

// Events returns one event of each kind, in the order of the page.
func Events() []Event {
	return []Event{
		AvailabilityChanged{},
		OfferAsked{},
		ProvisionAsked{},
		Adopted{},
		Prepared{},
		WeightsProgressed{},
		WeightsReady{},
		Loaded{},
		Admitted{},
		RouteLost{},
		EdgeJoined{},
		ServeAsked{},
		StageFailed{},
		TearDownAsked{},
		PartDone{},
		Tick{},
	}
}

// Effect is what the owner of the state is to do, or to tell.
type Effect interface{ effect() }

// PhaseChanged: the one announcement of a phase. Why is nil where no fault
// is the reason.
type PhaseChanged struct {
	Order    Order
	From, To Phase
	Why      *fault.Fault
}

// ProvisionAccepted answers ProvisionAsked.
type ProvisionAccepted struct {
	Order  Order
	Ask    uint64
	DryRun bool
}

// ProvisionRefused answers ProvisionAsked: nothing was begun.
type ProvisionRefused struct {
	Order Order
	Ask   uint64
	Fault *fault.Fault
}

// Adopt asks to hand what the offer holds, its worker and its loaded slice, to
// the order.
type Adopt struct {
	Order
	From Order // the offer
}

// Prepare asks to lease the rings, and to see to a worker that has proven
// itself.
type Prepare struct{ Order }

// FetchWeights asks for the verified slice, with WeightsProgressed on the way.
type FetchWeights struct{ Order }

// Load asks the worker to load the slice and to run it.
type Load struct{ Order }

// Admit asks for a real forward of what was loaded, its judgement, and the
// registration of the stage at the tracker, which is kept up from then on.
type Admit struct{ Order }

// Connect asks to install the rings, accept the in-edge and open the out-edge.
type Connect struct{ Order }

// StageReady is for the orchestrator.
type StageReady struct{ Order }

// StageFaulted is for the orchestrator; the teardown has begun.
type StageFaulted struct {
	Order
	Fault *fault.Fault
}

// TakeDown asks for one part of the teardown, also where there is nothing to
// do for it; it may be asked again.
type TakeDown struct {
	Order
	Part Part
}

// TeardownOverdue: a part has not been confirmed in time, and the node cannot
// be used as long as it is not.
type TeardownOverdue struct {
	Order
	Part  Part
	Fault *fault.Fault
}

// TornDown: nothing of the order is left on this node.
type TornDown struct{ Order }

// Wake asks for a Tick at the instant At or soon after. The latest Wake
// replaces the former.
type Wake struct{ At time.Duration }

func (PhaseChanged) effect()      {}
func (ProvisionAccepted) effect() {}
func (ProvisionRefused) effect()  {}
func (Adopt) effect()             {}
func (Prepare) effect()           {}
func (FetchWeights) effect()      {}
func (Load) effect()              {}
func (Admit) effect()             {}
func (Connect) effect()           {}
func (StageReady) effect()        {}
func (StageFaulted) effect()      {}
func (TakeDown) effect()          {}
func (TeardownOverdue) effect()   {}
func (TornDown) effect()          {}
func (Wake) effect()              {}
