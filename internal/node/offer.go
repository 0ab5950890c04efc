package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// Offer is a shard that the node's operator has chosen: resident and admitted as
// long as no plan gives the node a stage. It becomes no stage by itself.
type Offer struct {
	Model  string // as the orchestrator serves it: its name, or the beginning of its revision
	Layers [2]int // [start,end)
}

// offering is what the mailbox holds of the operator's choice. The node's
// availability says nothing of it.
type offering struct {
	asking  bool                 // the orchestrator is asked what the shard is made of
	shard   *controlpb.Provision // its latest answer
	attempt uint32               // offers begun so far
	pause   time.Duration        // the latest after a failure
	why     *fault.Fault         // the latest failure; nil once it stood since
	at      time.Duration        // instant of the next; 0: none is to come
}

// Pauses between an offer that failed and the next, and the bound of the
// question for what it is made of.
const (
	firstOfferPause = 200 * time.Millisecond
	mostOfferPause  = 30 * time.Second
	offerWithin     = 10 * time.Second
)

// offerAnswered: the orchestrator has said what the shard is made of, or why it
// cannot be held.
type offerAnswered struct {
	attempt *attempt
	shard   *controlpb.Provision
	why     *fault.Fault
}

func (offerAnswered) message() {}

// offerNow has the operator's choice, if there is one, taken up at the next tick.
func (n *node) offerNow() {
	if n.cfg.Offer != nil {
		n.offer.at = n.now()
	}
}

// askOffer asks what the shard is made of, where the node is free for it.
func (n *node) askOffer() {
	if n.boot.Phase != boot.Available || n.work != nil || n.offer.asking || n.leaveBy != 0 {
		return // whatever frees the node next asks again
	}
	n.offer.asking = true
	a, want := n.attempt, *n.cfg.Offer
	a.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, offerWithin)
		defer cancel()
		shard, err := n.shardOf(ctx, want, a.number)
		n.tell(offerAnswered{attempt: a, shard: shard, why: fault.From(err)})
	})
}

func (n *node) shardOf(ctx context.Context, o Offer, attempt uint32) (*controlpb.Provision, error) {
	net, err := n.here()
	if err != nil {
		return nil, err
	}
	reply, err := net.caller.Call(ctx, n.cfg.Orchestrator, &controlpb.Request{Body: &controlpb.Request_Offer{Offer: &controlpb.Offer{
		BootId: controlpb.ID(n.bootID), Model: o.Model, Layers: controlpb.LayersOf(o.Layers), Attempt: attempt,
	}}})
	if err != nil {
		return nil, err
	}
	shard := reply.GetOffer().GetShard()
	if shard.GetLayers().Range() != o.Layers || controlpb.Boot(shard.GetBootId()) != n.bootID {
		return nil, fault.New(fault.StageOrderInvalid, component, "what", "the orchestrator answered an offer with another shard")
	}
	return shard, nil
}

// offerAnswered begins the offer. An answer to an attempt that is over counts no
// more, nor does one that came after an order.
func (n *node) offerAnswered(m offerAnswered) {
	n.offer.asking = false
	switch {
	case m.attempt != n.attempt || n.boot.Phase != boot.Available || n.work != nil:
	case m.why != nil:
		if _, over := n.offerFailed(stage.Empty, m.why); over {
			n.leave("its offer cannot be held")
		}
	default:
		n.offer.shard = m.shard
		n.offer.attempt++
		n.bound(m.shard.GetDeadlines())
		n.stepStage(stage.OfferAsked{Order: stage.Order{Attempt: n.offer.attempt, Boot: n.bootID}})
	}
}

// offers reports whether just the shard of an order is what the node offers.
func (n *node) offers(asked *controlpb.Provision) bool {
	w := n.work
	if w == nil || !w.order.Offer() {
		return false
	}
	own := w.asked
	first, last := asked.GetStage() == 0, asked.GetStage()+1 == asked.GetStages()
	return own.GetModel().GetRevision() == asked.GetModel().GetRevision() && own.GetLayers().Range() == asked.GetLayers().Range() &&
		w.first() == first && w.last() == last && proto.Equal(own.GetRecipe(), asked.GetRecipe())
}

// takeOver hands what the offer holds to the order that takes its place, once the
// offer's lease is no longer renewed.
func (n *node) takeOver(o stage.Order) {
	former := n.work
	close(former.handed)
	w := n.newWork(o)
	w.crew = former.crew
	n.work = w
	if err := n.expectIn(w); err != nil {
		w.tasks.Go(func() { w.inherit(former) }) // the teardown frees it
		n.stepStage(stage.StageFailed{Order: o, Fault: fault.From(err)})
		return
	}
	n.begin(func(_ *node, w *work) (stage.Event, error) {
		w.inherit(former)
		return stage.Adopted{Order: w.order}, nil
	})
}

// inherit takes what a former work has loaded, when nothing of that works any
// more.
func (w *work) inherit(former *work) {
	former.tasks.Wait()
	former.cancel()
	w.model, w.manifest, w.cells, w.loaded = former.model, former.manifest, former.cells, former.loaded
	w.body, w.embedding = former.body, former.embedding
}

// offerChanged tells of the offer's phase, and what comes of its end.
func (n *node) offerChanged(e stage.PhaseChanged) {
	if e.To == stage.Offered {
		n.offer.pause, n.offer.why = 0, nil
	}
	if e.To > stage.TearingDown {
		return
	}
	m, over := n.offerProgress(e.To, 0, 0, ""), false
	if e.To == stage.TearingDown && e.Why != nil {
		var again time.Duration
		again, over = n.offerFailed(e.From, e.Why)
		m.GetOfferChanged().Fault, m.GetOfferChanged().AgainMicros = controlpb.FaultOf(e.Why), controlpb.Micros(again)
	}
	n.report.push(m)
	if over {
		n.leave("its offer cannot be held")
	}
}

func (n *node) offerProgress(p stage.Phase, done, total int64, detail string) *controlpb.Report {
	return &controlpb.Report{Event: &controlpb.Report_OfferChanged{OfferChanged: &controlpb.OfferChanged{
		Layers: controlpb.LayersOf(n.cfg.Offer.Layers), Phase: p.String(), Done: uint64(done), Total: uint64(total), Detail: detail,
	}}}
}

// offerFailed has the offer come again after a pause. Where the shard failed its
// doctor, or can never be held, that is over, and the process is to leave by it.
func (n *node) offerFailed(in stage.Phase, why *fault.Fault) (again time.Duration, over bool) {
	n.offer.why = why
	if final(in, why) && n.verdict == nil {
		n.verdict = why
		return 0, true
	}
	n.offer.pause = min(max(2*n.offer.pause, firstOfferPause), mostOfferPause)
	n.offer.at = n.now() + n.offer.pause
	n.cfg.Tell(event.OfferDelayed{Layers: n.cfg.Offer.Layers, Fault: why, AgainMillis: n.offer.pause.Milliseconds()})
	return n.offer.pause, false
}

// notYet are answers of the tracker that say nothing of a forward: it may be
// asked again.
var notYet = []fault.Code{
	fault.AdmitChallengesExhausted, fault.AdmitNodeHeld, fault.AdmitRateExceeded, fault.AdmitBookFull, fault.AdmitShardUnwanted,
	fault.AdmitEpochMismatched, fault.AdmitChallengeUnknown, fault.AdmitChallengeExpired,
}

// final reports whether an offer that failed in a phase is given up: its doctor
// says no, its worker did not outlive the forward, or nothing will change.
func final(in stage.Phase, why *fault.Fault) bool {
	family, _, _ := strings.Cut(string(why.Code), ".")
	switch {
	case in > stage.Admitting || unanswered(why) || slices.Contains(notYet, why.Code):
		return false
	case in == stage.Admitting && (family == "doctor" || family == "admit" || family == "worker"):
		return true
	}
	return why.Code.Entry().Retry == fault.Never
}
