package stage

import "muster/internal/fault"

// offer takes the operator's choice up on a node that holds nothing and is
// available.
func (t *turn) offer(e OfferAsked) {
	free := t.Phase == Empty || t.Phase == Gone
	if free && t.Available && e.Order.Offer() && e.Boot == t.Boot && !t.ended(e.Order) {
		t.begin(e.Order)
	}
}

// replace lets a plan's order take the place of an offer. Where it is of just
// the shard that is offered it takes that over once it is admitted; else the
// offer is torn down before.
func (t *turn) replace(e ProvisionAsked) {
	t.Next, t.Held = e.Order, e.Held
	switch {
	case t.Phase == TearingDown:
		t.Held = false
	case !e.Held:
		t.beginTeardown(nil)
	case t.Phase == Offered:
		t.adopt()
	}
}

// adopt gives what the offer holds to the order that waits for it. What it has
// proven is the offer's: the order is admitted by a forward of its own.
func (t *turn) adopt() {
	from := t.Order
	t.Order = t.takeNext()
	t.Joined, t.Fetched, t.Fault = 0, 0, nil
	t.become(Preparing, nil)
	t.emit(Adopt{Order: t.Order, From: from})
}

// takeNext is the order that waits, none where none does; it waits no more.
func (t *turn) takeNext() Order {
	next := t.Next
	t.Next, t.Held = Order{}, false
	return next
}

// admitted joins a stage to its neighbours, and lets an offer stand or be taken
// over.
func (t *turn) admitted(e Admitted) {
	if !e.Order.Offer() {
		t.move(e.Order, Admitting, Connecting, Connect(e))
		t.join(e.Order, 0)
		return
	}
	t.move(e.Order, Admitting, Offered, nil)
	if e.Order == t.Order && t.Phase == Offered && t.Held {
		t.adopt()
	}
}

// routeLost examines an offer anew. A stage never serves by another forward than
// the one it became ready by.
func (t *turn) routeLost(e RouteLost) {
	switch {
	case e.Order != t.Order || !t.active():
	case t.Phase == Offered:
		t.move(e.Order, Offered, Admitting, Admit{e.Order})
	default:
		t.fail(e.Fault)
	}
}

// failNext ends an order that waits for an offer, of which nothing is held yet.
func (t *turn) failNext(why *fault.Fault) {
	next := t.takeNext()
	if next.Run.IsZero() {
		return
	}
	if why == nil {
		why = fault.New(fault.StageNodeClosed, component)
	}
	t.emit(StageFaulted{Order: next, Fault: why})
	t.end(next)
}
