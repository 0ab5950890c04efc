package orch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/gate"
	"muster/internal/core/plan"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// offer is a shard that a node's operator chose, as its boot has told of it. Only
// one that is admitted counts for a plan.
type offer struct {
	layers   [2]int
	is       substance
	state    *controlpb.OfferChanged // nil before the first word
	admitted bool                    // it holds a lease
	heard    time.Duration           // instant of its latest word; later than now where a try is to come
	released string                  // why the latest plan was made without it; "" where it was not
}

// pending reports whether it may still come to be admitted.
func (f *offer) pending() bool { return f != nil && !f.admitted }

func (f *offer) phase() string {
	switch p := f.state.GetPhase(); {
	case p == "":
		return stage.Preparing.String()
	case p == stage.Offered.String() && !f.admitted:
		return "its lease has ended, it is examined anew"
	case f.state.GetAgainMicros() > 0:
		return "it is tried again: " + f.state.GetFault().Typed().Error()
	default:
		return p
	}
}

// offersWithin is how long a plan waits for an offer that says nothing.
const offersWithin = 15 * time.Second

// shortestRevision is how much of a revision names a model.
const shortestRevision = 8

// answerOffer says what the shard is made of that a node's operator chose.
func (o *Orch) answerOffer(ctx context.Context, peer id.NodeID, f *controlpb.Offer) (*controlpb.Reply, error) {
	var shard *controlpb.Provision
	var refused error
	if err := o.ask(ctx, func(m *mailbox) { shard, refused = m.hearOffer(peer, f) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Offer{Offer: &controlpb.OfferReply{Shard: shard}}}, nil
}

func (m *mailbox) hearOffer(peer id.NodeID, f *controlpb.Offer) (*controlpb.Provision, error) {
	n, served := m.nodes[peer], m.o.model
	if n == nil {
		return nil, m.o.stranger(peer)
	}
	l := n.known(controlpb.Boot(f.GetBootId()))
	switch {
	case !l.acknowledged():
		return nil, fault.New(fault.NodeUnacknowledged, component, "name", n.label())
	case l.available == nil || l.faulted != nil || l.available.GetAttempt() != f.GetAttempt() || !m.alive(peer, l.boot):
		// What it has told of a former attempt is still on its way.
		return nil, fault.New(fault.OfferNodeUnconfirmed, component, "name", n.label())
	case !m.published:
		return nil, fault.New(fault.OfferModelUnpublished, component, "model", served.name)
	case !served.called(f.GetModel()):
		return nil, m.refuseOffer(n, f, fault.New(fault.OfferModelUnknown, component, "model", f.GetModel(), "served", served.name))
	}
	layers := f.GetLayers().Range()
	if err := served.facts.CheckCut(layers[0], layers[1]); err != nil {
		return nil, m.refuseOffer(n, f, fault.From(err))
	}
	is, err := served.identify(plan.Stage{Start: layers[0], End: layers[1]})
	if err != nil {
		return nil, err
	}
	l.offer = &offer{layers: layers, is: is, heard: m.o.now()}
	p := &controlpb.Provision{
		BootId: f.GetBootId(), Model: served.source, Layers: f.GetLayers(), Stages: 1, Recipe: controlpb.RecipeOf(served.recipe),
		Epoch: m.pool.Epoch, Probe: served.asked,
	}
	if layers[0] > 0 {
		p.Stage, p.Stages = 1, 2
	}
	if layers[1] < served.facts.Layers {
		p.Stages++
	}
	return p, nil
}

// refuseOffer tells of an offer that can never be held: its node ends by it.
func (m *mailbox) refuseOffer(n *node, f *controlpb.Offer, why *fault.Fault) *fault.Fault {
	n.ended = why
	m.o.journal.Tell(event.OfferFailed{Node: n.ID, Label: n.label(), Layers: f.GetLayers().Range(), Fault: why})
	return why
}

// called reports whether a model is meant by a name, or by the beginning of a
// revision.
func (m *model) called(name string) bool {
	return name == m.name || m.preset != nil && name == m.preset.Name ||
		len(name) >= shortestRevision && strings.HasPrefix(m.manifest.Revision, name)
}

// hearOfferChanged follows an offer. One that ends is no pin any more.
func (m *mailbox) hearOfferChanged(n *node, l *life, c *controlpb.OfferChanged) {
	f := l.offer
	if f == nil || c.GetLayers().Range() != f.layers {
		return
	}
	again := controlpb.Duration(c.GetAgainMicros())
	f.state, f.heard = c, m.o.now()+again
	if c.GetPhase() != stage.TearingDown.String() {
		return
	}
	why := c.GetFault().Typed()
	if why == nil {
		l.offer = nil // it gave way to a plan
		return
	}
	if ofAdmission(why.Code) {
		l.unfit = why
	}
	if again == 0 {
		l.offer, n.ended = nil, why // and its node leaves
	}
	m.o.journal.Tell(event.OfferFailed{Node: n.ID, Label: n.label(), Layers: f.layers, Fault: why})
	m.again(offerHold)
}

// offerHold is how long an offer that failed waits for what its node tells next: a
// worker that was lost, or that it leaves, is the pool's loss and no plan's.
const offerHold = time.Second

// wantedForOffer is what a node must have proven of what it offers, the zero value
// where nothing of it is wanted: it is not there for a plan.
func (m *mailbox) wantedForOffer(r admit.Report) admit.Want {
	told := m.living(m.holders()[r.Node])
	if told == nil || told.available == nil || told.faulted != nil || told.offer == nil || !m.alive(r.Node, told.boot) {
		return admit.Want{}
	}
	f := told.offer
	return m.want(shardWanted{node: r.Node, boot: told.boot, layers: f.layers, is: f.is, epoch: m.pool.Epoch}, told.available, r)
}

// alive reports whether SWIM sees a boot alive.
func (m *mailbox) alive(n id.NodeID, boot id.BootID) bool {
	for _, row := range m.o.member.View().Rows {
		if row.Node == n {
			return row.Boot == boot && stateOf(row.State) == gate.SwimAlive
		}
	}
	return false
}

// hearOfferRouted follows the leases of offers.
func (m *mailbox) hearOfferRouted(l admit.Lease, admitted bool, why *fault.Fault) {
	told := m.living(gate.Booted{Node: l.Node, Boot: l.Boot})
	if told == nil || told.offer == nil || told.offer.layers != l.Layers {
		return
	}
	if why != nil && why.Code == fault.AdmitLeaseReplaced {
		told.offer = nil // its stage holds the route now
		return
	}
	told.offer.admitted, told.offer.heard = admitted, m.o.now()
	if admitted {
		m.form()
	}
}

// offered are the admitted offers of the nodes of a plan.
func (m *mailbox) offered(nodes []plan.Node) []plan.Pin {
	var all []plan.Pin
	for _, n := range nodes {
		told := m.living(gate.Booted{Node: n.ID, Boot: n.Boot})
		if told != nil && told.offer != nil && told.offer.admitted {
			all = append(all, plan.Pin{Node: n.ID, Start: told.offer.layers[0], End: told.offer.layers[1]})
		}
	}
	return all
}

// awaitsOffers reports whether a plan has to wait for what members of a readiness
// offer, and has it made when that has said nothing for too long.
func (m *mailbox) awaitsOffers(members []gate.Booted) bool {
	var left time.Duration
	for _, b := range members {
		if told := m.living(b); told != nil && told.offer.pending() {
			left = max(left, max(told.offer.heard, m.readyAt)+offersWithin-m.o.now())
		}
	}
	if left > 0 {
		m.again(left)
	}
	return left > 0
}

// offerBlockers are the offers that a ready pool waits for.
func (m *mailbox) offerBlockers() []Blocker {
	var all []Blocker
	if m.ready == nil {
		return nil
	}
	for _, b := range m.ready.Members {
		told := m.living(b)
		if told == nil || !told.offer.pending() {
			continue
		}
		f := told.offer
		what := fmt.Sprintf("its offer of layers %d to %d is not admitted yet: %s", f.layers[0], f.layers[1]-1, f.phase())
		if total := f.state.GetTotal(); total > 0 {
			what += fmt.Sprintf(", %d %%", 100*f.state.GetDone()/total)
		}
		all = append(all, Blocker{Node: b.Node, Name: m.label(b.Node), What: what})
	}
	return all
}

// OfferStatus is what a node's operator chose to hold.
type OfferStatus struct {
	Layers   [2]int `json:"layers"` // [start,end)
	Phase    string `json:"phase"`  // by the node's word
	Admitted bool   `json:"admitted"`
	Released string `json:"released,omitempty"` // why the latest plan was made without it
}

func (f *offer) status() *OfferStatus {
	if f == nil {
		return nil
	}
	return &OfferStatus{Layers: f.layers, Phase: f.phase(), Admitted: f.admitted, Released: f.released}
}
