package main

import (
	"time"

	"muster/internal/core/stage"
	"muster/internal/fault"
	"muster/internal/id"
)

var stageOrder = stage.Order{Run: id.RunID{1}, Attempt: 1, Boot: id.BootID{1}}

var stageOffer = stage.Order{Attempt: 1, Boot: stageOrder.Boot}

func stageMachine() machine {
	why := fault.New(fault.InternalUnexpected, "")
	other := stageOrder
	other.Run = id.RunID{2}
	offer := stageOffer
	return machine{
		name: "stage",
		intro: "A node's one stage, on a node that is available; in offered, an offer. In connecting, the in-edge is up; in tearing down, all but the release of\n" +
			"the leases is confirmed.",
		phases: texts(stage.Phases()),
		kinds:  anys(stage.Events()),
		rows: []row{
			{event: stage.AvailabilityChanged{Available: false, Fault: why}, when: "closed"},
			{event: stage.OfferAsked{Order: offer}},
			{event: stage.ProvisionAsked{Order: stageOrder, Ask: 1}},
			{event: stage.ProvisionAsked{Order: stageOrder, Ask: 1, Held: true}, when: "of the shard that is offered"},
			{event: stage.ProvisionAsked{Order: other, Ask: 1}, when: "of another run"},
			{event: stage.ProvisionAsked{Order: other, Ask: 1, DryRun: true}, when: "a dry run"},
			{event: stage.Adopted{Order: stageOrder}},
			{event: stage.Prepared{Order: stageOrder}},
			{event: stage.WeightsProgressed{Order: stageOrder, Done: 1}},
			{event: stage.WeightsReady{Order: stageOrder}},
			{event: stage.Loaded{Order: stageOrder}},
			{event: stage.Admitted{Order: stageOrder}},
			{event: stage.RouteLost{Order: stageOrder, Fault: why}},
			{event: stage.RouteLost{Order: offer, Fault: why}, when: "of the offer"},
			{event: stage.EdgeJoined{Order: stageOrder, Side: stage.Out}, when: "out"},
			{event: stage.ServeAsked{Order: stageOrder}},
			{event: stage.StageFailed{Order: stageOrder, Fault: why}},
			{event: stage.StageFailed{Order: other, Fault: why}, when: "of another run"},
			{event: stage.TearDownAsked{Order: stageOrder}},
			{event: stage.TearDownAsked{Order: other}, when: "of another run"},
			{event: stage.PartDone{Order: stageOrder, Part: stage.ReleaseLeases}, when: "the last"},
			{event: stage.Tick{}, when: due},
		},
		try: func(phase int, r row) (string, []any) {
			s := stageIn(stage.Phases()[phase])
			var effects []stage.Effect
			if r.event != nil {
				now := time.Duration(0)
				if r.when == due {
					now = time.Hour
				}
				s, effects = stage.Step(s, r.event.(stage.Event), now)
			}
			return s.Phase.String(), anys(effects)
		},
	}
}

func stageIn(p stage.Phase) stage.State {
	s := stage.New(stage.Settings{}, stageOrder.Boot)
	s, _ = stage.Step(s, stage.AvailabilityChanged{Available: true}, 0)
	if p == stage.Offered {
		for _, e := range []stage.Event{
			stage.OfferAsked{Order: stageOffer},
			stage.Prepared{Order: stageOffer},
			stage.WeightsReady{Order: stageOffer},
			stage.Loaded{Order: stageOffer},
			stage.Admitted{Order: stageOffer},
		} {
			s, _ = stage.Step(s, e, 0)
		}
		return s
	}
	for _, e := range []stage.Event{
		stage.ProvisionAsked{Order: stageOrder},
		stage.Prepared{Order: stageOrder},
		stage.WeightsReady{Order: stageOrder},
		stage.Loaded{Order: stageOrder},
		stage.Admitted{Order: stageOrder},
		stage.EdgeJoined{Order: stageOrder, Side: stage.In},
		stage.EdgeJoined{Order: stageOrder, Side: stage.Out},
		stage.ServeAsked{Order: stageOrder},
		stage.TearDownAsked{Order: stageOrder},
		stage.PartDone{Order: stageOrder, Part: stage.QuiescePumps},
		stage.PartDone{Order: stageOrder, Part: stage.UninstallRings},
		stage.PartDone{Order: stageOrder, Part: stage.StopWorker},
		stage.PartDone{Order: stageOrder, Part: stage.ReleaseLeases},
	} {
		next, _ := stage.Step(s, e, 0)
		if next.Phase > p {
			break
		}
		s = next
	}
	return s
}
