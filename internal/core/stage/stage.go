package stage

import (
	"fmt"
	"time"

	"muster/internal/fault"
)

// turn is one step in the making.
type turn struct {
	State
	effects []Effect
}

// Step lets time pass until now, takes the event and returns the next state
// with what is to be done, in order. An instant before the latest is taken for
// that one. An event that means nothing here changes nothing.
func Step(s State, e Event, now time.Duration) (State, []Effect) {
	t := turn{State: s}
	t.Now = max(s.Now, now)
	t.expire()
	t.take(e)
	if _, ticked := e.(Tick); t.Due != 0 && (ticked || t.Due != s.Due) {
		t.emit(Wake{At: t.Due})
	}
	return t.State, t.effects
}

func (t *turn) take(e Event) {
	switch e := e.(type) {
	case AvailabilityChanged:
		t.avail(e)
	case OfferAsked:
		t.offer(e)
	case ProvisionAsked:
		t.provision(e)
	case Adopted:
		t.move(e.Order, Preparing, Admitting, Admit(e))
	case Prepared:
		t.move(e.Order, Preparing, Fetching, FetchWeights(e))
	case WeightsProgressed:
		t.progress(e)
	case WeightsReady:
		t.move(e.Order, Fetching, Loading, Load(e))
	case Loaded:
		t.move(e.Order, Loading, Admitting, Admit(e))
	case Admitted:
		t.admitted(e)
	case RouteLost:
		t.routeLost(e)
	case EdgeJoined:
		t.join(e.Order, e.Side)
	case ServeAsked:
		t.move(e.Order, Ready, Serving, nil)
	case StageFailed:
		if e.Order == t.Order && t.active() {
			t.fail(e.Fault)
		}
	case TearDownAsked:
		t.tearDown(e)
	case PartDone:
		t.partDone(e)
	case Tick:
	}
}

func (t *turn) emit(e Effect) { t.effects = append(t.effects, e) }

// become is the one place that writes the phase, and with it the deadline.
func (t *turn) become(p Phase, why *fault.Fault) {
	t.emit(PhaseChanged{Order: t.Order, From: t.Phase, To: p, Why: why})
	t.Phase, t.Since = p, t.Now
	t.restartDeadline()
}

func (t *turn) restartDeadline() {
	t.Due = 0
	if d, _ := t.Settings.within(t.Phase); d > 0 {
		t.Due = t.Now + d
	}
}

// active reports whether there is a stage that is not being torn down.
func (t *turn) active() bool { return t.Phase > Empty && t.Phase < TearingDown }

// avail follows node boot. What a stage rests on has gone with the node's
// availability.
func (t *turn) avail(e AvailabilityChanged) {
	t.Available = e.Available
	if !e.Available && t.active() {
		why := e.Fault
		if why == nil {
			why = fault.New(fault.StageNodeClosed, component)
		}
		t.fail(why)
	} else if !e.Available {
		t.failNext(e.Fault)
	}
}

// provision answers every order. The same order again is accepted again and
// begins nothing.
func (t *turn) provision(e ProvisionAsked) {
	repeated := !e.DryRun && (t.active() && e.Order == t.Order || e.Order == t.Next)
	if why := t.objection(e.Order); why != nil && !repeated {
		t.emit(ProvisionRefused{Order: e.Order, Ask: e.Ask, Fault: why})
		return
	}
	t.emit(ProvisionAccepted{Order: e.Order, Ask: e.Ask, DryRun: e.DryRun})
	if e.DryRun || repeated {
		return
	}
	if t.Order.Offer() && t.Phase != Gone {
		t.replace(e)
		return
	}
	t.begin(e.Order)
}

// begin takes an order up on a node that holds nothing.
func (t *turn) begin(o Order) {
	t.Order, t.Joined, t.Fetched, t.Part, t.Late, t.Fault = o, 0, 0, 0, false, nil
	t.become(Preparing, nil)
	t.emit(Prepare{t.Order})
}

// objection says why an order cannot be taken, nil where it can. That the node
// is not available comes last: it is said only where nothing else is wrong.
func (t *turn) objection(o Order) *fault.Fault {
	switch {
	case o.Run.IsZero() || o.Attempt == 0:
		return fault.New(fault.StageOrderInvalid, component, "what", "it names no run or no attempt")
	case o.Boot != t.Boot:
		return fault.New(fault.StageBootMismatched, component, "want", o.Boot.Short(), "boot", t.Boot.Short())
	case !t.Next.Run.IsZero():
		return fault.New(fault.StageNodeOccupied, component, "run", t.Next.Run.Short(), "phase", t.Phase)
	case (t.active() || t.Phase == TearingDown) && !t.Order.Offer():
		return fault.New(fault.StageNodeOccupied, component, "run", t.Order.Run.Short(), "phase", t.Phase)
	case t.ended(o):
		return fault.New(fault.StageOrderInvalid, component, "what", "it has been torn down")
	case !t.Available:
		return fault.New(fault.StageNodeUnavailable, component)
	}
	return nil
}

// move goes on from one phase to the next where the word is of this order.
func (t *turn) move(o Order, from, to Phase, then Effect) {
	if o != t.Order || t.Phase != from {
		return
	}
	t.become(to, nil)
	if then != nil {
		t.emit(then)
	}
}

// progress grants more time while bytes come.
func (t *turn) progress(e WeightsProgressed) {
	if e.Order == t.Order && t.Phase == Fetching && e.Done > t.Fetched {
		t.Fetched = e.Done
		t.restartDeadline()
	}
}

// join notes an edge that is up, and makes the stage ready once both are and it
// is admitted.
func (t *turn) join(o Order, s Side) {
	if o != t.Order || !t.active() || s > Out {
		return
	}
	t.Joined |= s
	if t.Phase == Connecting && t.Joined == In|Out {
		t.become(Ready, nil)
		t.emit(StageReady{t.Order})
	}
}

// fail ends the stage by a fault, told once, and begins the teardown.
func (t *turn) fail(why *fault.Fault) {
	if why == nil {
		why = fault.New(fault.InternalUnexpected, component)
	}
	t.Fault = why
	t.emit(StageFaulted{Order: t.Order, Fault: why})
	t.failNext(why)
	t.beginTeardown(why)
}

// tearDown ends the stage without a fault. Of an order that is not held here,
// nothing is left.
func (t *turn) tearDown(e TearDownAsked) {
	switch {
	case e.Order == t.Next && !e.Run.IsZero():
		t.end(t.takeNext())
	case e.Order != t.Order || t.Phase == Gone || t.Phase == Empty:
		t.end(e.Order)
	case t.active():
		t.beginTeardown(nil)
	}
}

func (t *turn) beginTeardown(why *fault.Fault) {
	t.become(TearingDown, why)
	t.takeDown(Parts()[0])
}

func (t *turn) takeDown(s Part) {
	t.Part = s
	t.restartDeadline()
	t.emit(TakeDown{Order: t.Order, Part: s})
}

// partDone goes on to the next part; after the last one the stage is gone.
func (t *turn) partDone(e PartDone) {
	if e.Order != t.Order || t.Phase != TearingDown || e.Part != t.Part {
		return
	}
	if next := t.Part.after(); next != 0 {
		t.takeDown(next)
		return
	}
	t.Part = 0
	t.become(Gone, nil)
	t.end(t.Order)
	if next := t.takeNext(); !next.Run.IsZero() {
		t.begin(next)
	}
}

// end says that nothing of an order is left, and sees to it that nothing of it
// comes.
func (t *turn) end(o Order) {
	if !t.ended(o) {
		t.Ended[t.Ends%uint(len(t.Ended))] = o
		t.Ends++
	}
	t.emit(TornDown{o})
}

// expire ends a phase whose deadline has come. A part of the teardown is asked
// again instead.
func (t *turn) expire() {
	if t.Due == 0 || t.Now < t.Due {
		return
	}
	within, code := t.Settings.within(t.Phase)
	f := fault.New(code, component, "waited", fmt.Sprintf("%.1f s", within.Seconds()), "part", t.Part, "missing", t.missing())
	if t.Phase != TearingDown {
		t.fail(f)
		return
	}
	if !t.Late {
		t.Late = true
		t.emit(TeardownOverdue{Order: t.Order, Part: t.Part, Fault: f})
	}
	t.takeDown(t.Part)
}

// missing names the edges that are not up.
func (t *turn) missing() string {
	switch t.Joined {
	case In:
		return "the out-edge"
	case Out:
		return "the in-edge"
	default:
		return "both edges"
	}
}

const component = "stage"
