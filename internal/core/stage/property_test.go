package stage_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/stage"
	"muster/internal/id"
)

type told struct {
	e  stage.Event
	at time.Duration
}

// verdict is what must hold after a log, found by reading all of it.
type verdict struct {
	phase           stage.Phase
	order           stage.Order
	next            stage.Order // waits for the offer that is held
	held            bool
	ready, faulted  int // told of the latest order
	unbegun         int // orders that failed before anything of them was held
	torn            map[stage.Order]int
	owed            stage.Part
	answered        int
	availableAtLast bool
}

func settings() stage.Settings {
	return stage.Settings{
		Preparing: 1 * time.Second, Fetching: 2 * time.Second, Loading: 3 * time.Second, Admitting: 7 * time.Second, Connecting: 4 * time.Second, Ready: 5 * time.Second,
		TakingDown: 6 * time.Second,
	}
}

var limits = map[stage.Phase]time.Duration{
	stage.Preparing: 1 * time.Second, stage.Fetching: 2 * time.Second, stage.Loading: 3 * time.Second, stage.Connecting: 4 * time.Second,
	stage.Admitting: 7 * time.Second, stage.Ready: 5 * time.Second,
}

func judge(log []told) verdict {
	v := verdict{torn: map[stage.Order]int{}}
	var (
		now, since time.Duration
		bytes      uint64
		sides      = map[stage.Side]bool{}
	)
	active := func() bool { return v.phase > stage.Empty && v.phase < stage.TearingDown }
	become := func(p stage.Phase) { v.phase, since = p, now }
	failNext := func() {
		if v.next != (stage.Order{}) {
			v.torn[v.next]++
			v.unbegun++
			v.next, v.held = stage.Order{}, false
		}
	}
	begin := func(o stage.Order) {
		v.order, v.next, v.held, v.ready, v.faulted = o, stage.Order{}, false, 0, 0
		bytes, sides = 0, map[stage.Side]bool{}
		become(stage.Preparing)
	}
	end := func(fault bool) {
		if fault {
			v.faulted++
			failNext()
		}
		v.owed = stage.QuiescePumps
		become(stage.TearingDown)
	}
	on := func(o stage.Order, from, to stage.Phase) {
		if o == v.order && v.phase == from {
			become(to)
		}
	}
	for _, l := range log {
		now = max(now, l.at)
		if limit, ok := limits[v.phase]; ok && now >= since+limit {
			end(true)
		}
		switch e := l.e.(type) {
		case stage.AvailabilityChanged:
			v.availableAtLast = e.Available
			if !e.Available && active() {
				end(true)
			} else if !e.Available {
				failNext()
			}
		case stage.OfferAsked:
			free := v.phase == stage.Empty || v.phase == stage.Gone
			if free && v.availableAtLast && e.Run.IsZero() && e.Attempt > 0 && e.Boot == boot1 && v.torn[e.Order] == 0 {
				begin(e.Order)
			}
		case stage.Adopted:
			on(e.Order, stage.Preparing, stage.Admitting)
		case stage.ProvisionAsked:
			v.answered++
			sound := !e.Run.IsZero() && e.Attempt > 0 && e.Boot == boot1
			free := v.phase == stage.Empty || v.phase == stage.Gone
			if !sound || v.torn[e.Order] > 0 || !v.availableAtLast || e.DryRun {
				continue
			}
			switch {
			case free:
				begin(e.Order)
			case v.order.Run.IsZero() && v.next == (stage.Order{}):
				v.next, v.held = e.Order, e.Held && v.phase != stage.TearingDown
				if v.phase != stage.TearingDown && !e.Held {
					end(false)
				} else if v.phase == stage.Offered {
					begin(e.Order)
				}
			}
		case stage.Prepared:
			on(e.Order, stage.Preparing, stage.Fetching)
		case stage.WeightsProgressed:
			if e.Order == v.order && v.phase == stage.Fetching && e.Done > bytes {
				bytes, since = e.Done, now
			}
		case stage.WeightsReady:
			on(e.Order, stage.Fetching, stage.Loading)
		case stage.Loaded:
			on(e.Order, stage.Loading, stage.Admitting)
		case stage.Admitted:
			if !e.Run.IsZero() {
				on(e.Order, stage.Admitting, stage.Connecting)
				break
			}
			on(e.Order, stage.Admitting, stage.Offered)
			if e.Order == v.order && v.phase == stage.Offered && v.held {
				begin(v.next)
			}
		case stage.RouteLost:
			if e.Order == v.order && v.phase == stage.Offered {
				become(stage.Admitting)
			} else if e.Order == v.order && active() {
				end(true)
			}
		case stage.EdgeJoined:
			if e.Order == v.order && active() {
				sides[e.Side] = true
			}
		case stage.ServeAsked:
			on(e.Order, stage.Ready, stage.Serving)
		case stage.StageFailed:
			if e.Order == v.order && active() {
				end(true)
			}
		case stage.TearDownAsked:
			if !e.Run.IsZero() && e.Order == v.next {
				v.next, v.held = stage.Order{}, false
				v.torn[e.Order]++
			} else if e.Order == v.order && active() {
				end(false)
			} else if e.Order != v.order || v.phase != stage.TearingDown {
				v.torn[e.Order]++
			}
		case stage.PartDone:
			if e.Order == v.order && v.phase == stage.TearingDown && e.Part == v.owed {
				if v.owed == stage.ReleaseLeases {
					v.torn[v.order]++
					become(stage.Gone)
					if v.next != (stage.Order{}) {
						begin(v.next)
					}
				} else {
					v.owed += 10
				}
			}
		}
		if v.phase == stage.Connecting && sides[stage.In] && sides[stage.Out] {
			v.ready++
			become(stage.Ready)
		}
	}
	return v
}

// anyEvents draws a word of the order that is held, seldom of another, or a
// sound course of words.
func anyEvents(t *rapid.T, s stage.State) []stage.Event {
	o := s.Order
	if s.Phase == stage.Empty || s.Phase == stage.Gone || rapid.IntRange(0, 9).Draw(t, "other") == 0 {
		o = stage.Order{Run: id.RunID{byte(rapid.IntRange(0, 3).Draw(t, "run"))}, Attempt: uint32(rapid.IntRange(0, 2).Draw(t, "attempt")), Boot: boot1}
		if rapid.IntRange(0, 9).Draw(t, "boot") == 0 {
			o.Boot = id.BootID{2}
		}
	}
	if s.Next != (stage.Order{}) && rapid.IntRange(0, 3).Draw(t, "next") == 0 {
		o = s.Next
	}
	course := []stage.Event{
		stage.AvailabilityChanged{Available: true},
		stage.ProvisionAsked{Order: o, Ask: 1, Held: rapid.Bool().Draw(t, "held")},
		stage.OfferAsked{Order: o},
		stage.Prepared{Order: o},
		stage.WeightsReady{Order: o},
		stage.EdgeJoined{Order: o, Side: stage.In},
		stage.Loaded{Order: o},
		stage.Admitted{Order: o},
		stage.EdgeJoined{Order: o, Side: stage.Out},
		stage.ServeAsked{Order: o},
		stage.RouteLost{Order: o, Fault: why},
	}
	if rapid.IntRange(0, 3).Draw(t, "taken over") == 0 {
		course = slices.Insert(course, 3, stage.Event(stage.Adopted{Order: o}))
	}
	end := []stage.Event{stage.TearDownAsked{Order: o}}
	for _, step := range stage.Parts() {
		end = append(end, stage.PartDone{Order: o, Part: step})
	}
	switch rapid.IntRange(0, 14).Draw(t, "kind") {
	case 0, 1:
		return course[:rapid.IntRange(3, len(course)-1).Draw(t, "as far as")]
	case 2:
		return course[rapid.IntRange(2, len(course)-1).Draw(t, "from"):]
	case 3, 4:
		return end[rapid.IntRange(0, 2).Draw(t, "from"):]
	case 5:
		return end[:rapid.IntRange(1, 4).Draw(t, "as far as")]
	case 6:
		return []stage.Event{stage.StageFailed{Order: o, Fault: why}}
	case 7:
		return []stage.Event{stage.ProvisionAsked{Order: o, Ask: 2, DryRun: true}}
	case 8:
		return []stage.Event{stage.AvailabilityChanged{Available: rapid.Bool().Draw(t, "available")}}
	case 9:
		return []stage.Event{stage.WeightsProgressed{Order: o, Done: uint64(rapid.IntRange(0, 5).Draw(t, "bytes"))}}
	case 10:
		return []stage.Event{stage.Tick{}}
	default:
		return []stage.Event{rapid.SampledFrom(append(course, end...)).Draw(t, "event")}
	}
}

var steps = []time.Duration{0, 0, 0, 0, 1, 100 * time.Millisecond, time.Second, 2 * time.Second}

// heard counts what was told of the latest order.
type heard struct {
	order                    stage.Order
	ready, faulted, answered int
	unbegun                  int
	torn                     map[stage.Order]int
	asked                    []stage.Part // of the teardown, of the latest order
	overdue                  int
	wake                     time.Duration
}

func (h *heard) begin(o stage.Order) {
	h.order, h.ready, h.faulted, h.asked, h.overdue = o, 0, 0, nil, 0
}

func (h *heard) hear(t *rapid.T, effects []stage.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case stage.ProvisionAccepted:
			h.answered++
		case stage.ProvisionRefused:
			h.answered++
			if e.Fault == nil {
				t.Fatal("refused without a reason")
			}
		case stage.Prepare:
			h.begin(e.Order)
		case stage.Adopt:
			if h.order != e.From || !e.From.Offer() || h.faulted > 0 || len(h.asked) > 0 {
				t.Fatalf("%+v takes over from %+v, which holds nothing", e.Order, e.From)
			}
			h.begin(e.Order)
		case stage.StageReady:
			h.ready++
			if e.Offer() || h.faulted > 0 || len(h.asked) > 0 {
				t.Fatal("ready after the end")
			}
		case stage.StageFaulted:
			if e.Order != h.order {
				h.unbegun++
				continue
			}
			h.faulted++
			if e.Fault == nil || len(h.asked) > 0 {
				t.Fatal("a fault without words, or once the teardown had begun")
			}
		case stage.TakeDown:
			h.asked = append(h.asked, e.Part)
		case stage.TeardownOverdue:
			h.overdue++
		case stage.TornDown:
			h.torn[e.Order]++
		case stage.Wake:
			h.wake = e.At
		}
	}
}

// Ready and faulted once at most, every order answered, torn down only after
// each step was asked for in its order and confirmed.
func TestAStageAgreesWithTheWholeLog(t *testing.T) {
	reached := map[stage.Phase]int{}
	rapid.Check(t, func(t *rapid.T) {
		state := stage.New(settings(), boot1)
		h := heard{torn: map[stage.Order]int{}}
		var log []told
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			now += rapid.SampledFrom(steps).Draw(t, "later")
			for _, e := range anyEvents(t, state) {
				log = append(log, told{e, now})
				var effects []stage.Effect
				state, effects = stage.Step(state, e, now)
				h.hear(t, effects)
				check(t, state, &h, judge(log), log)
				reached[state.Phase]++
			}
		}
	})
	for _, p := range stage.Phases() {
		if reached[p] == 0 {
			t.Errorf("no sequence came to %s", p)
		}
	}
}

func check(t *rapid.T, s stage.State, h *heard, v verdict, log []told) {
	if s.Phase != v.phase || s.Order != v.order || h.ready != v.ready || h.faulted != v.faulted || h.answered != v.answered || h.unbegun != v.unbegun || s.Next != v.next {
		t.Fatalf("%s %+v, heard %+v; the log says %+v: %+v", s.Phase, s.Order, h, v, log)
	}
	for o, times := range v.torn {
		if h.torn[o] != times {
			t.Fatalf("%+v torn down %d times, the log says %d: %+v", o, h.torn[o], times, log)
		}
	}
	if s.Phase == stage.TearingDown && s.Part != v.owed || h.overdue > 1 {
		t.Fatalf("step %s, the log says %s; overdue %d times", s.Part, v.owed, h.overdue)
	}
	if !slices.IsSorted(h.asked) || len(h.asked) > 0 && h.asked[0] != stage.QuiescePumps {
		t.Fatalf("taken down as %v", h.asked)
	}
	if s.Due != 0 && h.wake != s.Due {
		t.Fatalf("%s is due at %s, woken at %s", s.Phase, s.Due, h.wake)
	}
	if timed := limits[s.Phase] > 0 || s.Phase == stage.TearingDown; timed != (s.Due != 0) {
		t.Fatalf("%s is due at %s", s.Phase, s.Due)
	}
}

func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 1, 1, 1, 0, 2, 1, 1, 0, 4, 1, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		state := stage.New(settings(), boot1)
		var log []told
		now := time.Duration(0)
		for ; len(b) >= 4 && len(log) < 60; b = b[4:] {
			now += time.Duration(b[3]) * 10 * time.Millisecond
			o := stage.Order{Run: id.RunID{b[1] % 3}, Attempt: uint32(b[1] / 3 % 2), Boot: id.BootID{1 + b[1]/6%2}}
			e := []stage.Event{
				stage.AvailabilityChanged{Available: b[2]%2 == 1},
				stage.ProvisionAsked{Order: o, DryRun: b[2]%4 == 0},
				stage.Prepared{Order: o},
				stage.WeightsProgressed{Order: o, Done: uint64(b[2])},
				stage.WeightsReady{Order: o},
				stage.Loaded{Order: o},
				stage.Admitted{Order: o},
				stage.EdgeJoined{Order: o, Side: stage.Side(b[2] % 3)},
				stage.ServeAsked{Order: o},
				stage.StageFailed{Order: o},
				stage.TearDownAsked{Order: o},
				stage.PartDone{Order: o, Part: stage.Part(b[2] % 5 * 10)},
				stage.Tick{},
				stage.OfferAsked{Order: o},
				stage.ProvisionAsked{Order: o, Held: true},
				stage.Adopted{Order: o},
				stage.RouteLost{Order: o},
			}[b[0]%17]
			log = append(log, told{e, now})
			state, _ = stage.Step(state, e, now)
		}
		if v := judge(log); v.phase != state.Phase || v.order != state.Order || v.next != state.Next {
			t.Fatalf("%s, the log says %+v: %+v", state.Phase, v, log)
		}
	})
}
