package boot_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core/boot"
	"muster/internal/fault"
)

// told is an event with its instant.
type told struct {
	e  boot.Event
	at time.Duration
}

// oracle reads the whole log of one node anew and says in which phase it must
// be, and how often each announcement must have been made.
type oracle struct {
	phase                    boot.Phase
	available, faulted, lost int
	attempt                  uint32
	held                     map[boot.Fact]bool
	asked                    map[boot.Fact]time.Duration // instant at which its proof was asked for
	deferred                 bool
}

var needs = map[boot.Fact][]boot.Fact{
	boot.Identity:     {boot.Endpoint},
	boot.Worker:       {boot.Arena},
	boot.Control:      {boot.Endpoint},
	boot.Swim:         {boot.Identity, boot.Endpoint},
	boot.Provisioning: {boot.Process, boot.Identity, boot.Arena, boot.Worker, boot.Endpoint, boot.Control, boot.Swim},
}

func judge(log []told, s boot.Settings) oracle {
	o := oracle{}
	now := time.Duration(0)
	for _, l := range log {
		now = max(now, l.at)
		for f, at := range o.asked {
			if o.phase == boot.InProof && now >= at+s.Within[f] {
				o.fail()
			}
		}
		o.take(l.e, now, s)
		o.ask(now)
	}
	return o
}

func (o *oracle) fail() {
	if o.phase == boot.Available {
		o.lost++
	} else {
		o.faulted++
	}
	o.phase, o.asked = boot.Faulted, nil
}

func (o *oracle) ask(now time.Duration) {
	if o.phase != boot.InProof {
		return
	}
	for _, f := range boot.Facts() {
		_, asked := o.asked[f]
		if !o.held[f] && !asked && !slices.ContainsFunc(needs[f], func(n boot.Fact) bool { return !o.held[n] }) {
			o.asked[f] = now
		}
	}
}

func (o *oracle) take(e boot.Event, now time.Duration, s boot.Settings) {
	runs := o.phase == boot.InProof || o.phase == boot.Available
	switch e := e.(type) {
	case boot.AttemptStarted:
		if (o.phase == boot.Idle || o.phase == boot.Faulted) && e.Attempt > o.attempt {
			o.phase, o.attempt = boot.InProof, e.Attempt
			o.held, o.asked = map[boot.Fact]bool{}, map[boot.Fact]time.Duration{}
			o.deferred = s.DeferWorker
			o.held[boot.Worker] = o.deferred
		}
	case boot.FactProven:
		if !runs || e.Attempt != o.attempt {
			return
		}
		if e.Fact == boot.Worker && o.deferred {
			o.deferred = false
			return
		}
		if _, asked := o.asked[e.Fact]; asked {
			delete(o.asked, e.Fact)
			o.held[e.Fact] = true
			if e.Fact == boot.Provisioning {
				o.phase = boot.Available
				o.available++
			}
		}
	case boot.FactFailed:
		if runs && e.Attempt == o.attempt && e.Fact <= boot.Provisioning && !(e.Fact == boot.Worker && o.deferred) {
			o.fail()
		}
	case boot.ResourceLost:
		if runs && e.Attempt == o.attempt && o.held[e.Fact] && !(e.Fact == boot.Worker && o.deferred) {
			o.fail()
		}
	case boot.LeaveAsked:
		o.phase, o.asked = boot.Left, nil
	}
}

func settings(deferred bool) boot.Settings {
	s := boot.Settings{DeferWorker: deferred}
	for f := range s.Within {
		s.Within[f] = time.Duration(2+f) * time.Second
	}
	return s
}

var steps = []time.Duration{0, 0, 0, 1, 100 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second}

// anyEvents draws one event, or now and then the whole of a sound boot.
func anyEvents(t *rapid.T, s boot.State) []boot.Event {
	if rapid.IntRange(0, 9).Draw(t, "sound") > 0 {
		return []boot.Event{anyEvent(t, s)}
	}
	all := []boot.Event{boot.AttemptStarted{Attempt: s.Attempt + 1}}
	for range 4 { // as long as the longest chain of needs
		for _, f := range boot.Facts() {
			all = append(all, boot.FactProven{Attempt: s.Attempt, Fact: f}, boot.FactProven{Attempt: s.Attempt + 1, Fact: f})
		}
	}
	return all[rapid.IntRange(0, 1).Draw(t, "first"):]
}

func anyEvent(t *rapid.T, s boot.State) boot.Event {
	attempt := s.Attempt
	if rapid.IntRange(0, 9).Draw(t, "stray") == 0 {
		attempt = uint32(rapid.IntRange(0, 4).Draw(t, "attempt"))
	}
	f := boot.Fact(rapid.IntRange(0, 8).Draw(t, "fact"))
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0:
		return boot.LeaveAsked{}
	case 1:
		return boot.FactFailed{Attempt: attempt, Fact: f, Fault: why(f)}
	case 2:
		return boot.ResourceLost{Attempt: attempt, Fact: f, Fault: why(f)}
	case 3, 4:
		return boot.AttemptStarted{Attempt: attempt + uint32(rapid.IntRange(0, 1).Draw(t, "next"))}
	case 5:
		return boot.Tick{}
	default:
		return boot.FactProven{Attempt: attempt, Fact: f}
	}
}

// announced counts what a log has told the world.
type announced struct {
	available, faulted, lost int
	open                     bool
	byAttempt                map[string]int
}

func (a *announced) hear(t *rapid.T, effects []boot.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case boot.NodeAvailable:
			a.available++
			a.once(t, "available", e.Attempt)
			if a.byAttempt[fmt.Sprint("ended", e.Attempt)] > 0 {
				t.Fatalf("attempt %d is available after its fault", e.Attempt)
			}
		case boot.BootFaulted:
			a.faulted++
			a.once(t, "ended", e.Attempt)
			if e.Fault == nil || a.byAttempt[fmt.Sprint("available", e.Attempt)] > 0 {
				t.Fatalf("attempt %d: a boot fault without a fault, or after it was available", e.Attempt)
			}
		case boot.NodeFaulted:
			a.lost++
			a.once(t, "ended", e.Attempt)
		case boot.OpenProvisioning:
			a.open = true
		case boot.CloseProvisioning:
			a.open = false
		}
	}
}

func (a *announced) once(t *rapid.T, what string, attempt uint32) {
	key := fmt.Sprint(what, attempt)
	if a.byAttempt[key]++; a.byAttempt[key] > 1 {
		t.Fatalf("%s twice", key)
	}
}

// The contract, over any sequence: available only once all facts are proven,
// once per attempt, never after its fault; a typed fault otherwise; provisioning
// is open exactly while the node is available.
func TestBootAgreesWithTheContractOverTheWholeLog(t *testing.T) {
	reached := map[boot.Phase]int{}
	rapid.Check(t, func(t *rapid.T) {
		s := settings(rapid.Bool().Draw(t, "deferred"))
		state := boot.New(s)
		var log []told
		heard := announced{byAttempt: map[string]int{}}
		now, woken := time.Duration(0), time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			now += rapid.SampledFrom(steps).Draw(t, "later")
			var effects []boot.Effect
			for _, e := range anyEvents(t, state) {
				log = append(log, told{e, now})
				var more []boot.Effect
				state, more = boot.Step(state, e, now)
				effects = append(effects, more...)
				reached[state.Phase]++
			}
			heard.hear(t, effects)
			for _, effect := range effects {
				if w, ok := effect.(boot.Wake); ok {
					woken = w.At
				}
			}
			o := judge(log, s)
			if state.Phase != o.phase || heard.available != o.available || heard.faulted != o.faulted || heard.lost != o.lost {
				t.Fatalf("%s with %+v, the contract says %+v, after %+v", state.Phase, heard, o, log)
			}
			if heard.open != (state.Phase == boot.Available) {
				t.Fatalf("%s with provisioning open: %v", state.Phase, heard.open)
			}
			for f, at := range o.asked {
				if due := at + s.Within[f]; state.Facts[f].Condition != boot.Proving || state.Facts[f].Due != due || woken > due {
					t.Fatalf("%s is due at %s: %+v, woken at %s", f, due, state.Facts[f], woken)
				}
			}
		}
	})
	for _, p := range boot.Phases() {
		if reached[p] == 0 {
			t.Errorf("no sequence came to %s", p)
		}
	}
}

// available brings a new node through its first attempt.
func available(t testing.TB, s boot.Settings) boot.State {
	t.Helper()
	state, _ := boot.Step(boot.New(s), boot.AttemptStarted{Attempt: 1}, 0)
	for range boot.Facts() {
		for _, f := range boot.Facts() {
			state, _ = boot.Step(state, boot.FactProven{Attempt: 1, Fact: f}, 0)
		}
	}
	if state.Phase != boot.Available {
		t.Fatalf("the node is %s", state.Phase)
	}
	return state
}

// One fact at a time is withheld, failed, late or lost: no NodeAvailable, and
// exactly one fault that is the fact's own.
func TestEachFactAloneKeepsTheNodeFromBeingAvailable(t *testing.T) {
	for _, bad := range boot.Facts() {
		prove := func(end boot.Event, at time.Duration) []boot.Effect {
			state, all := boot.Step(boot.New(boot.Settings{}), boot.AttemptStarted{Attempt: 1}, 0)
			step := func(e boot.Event, at time.Duration) {
				var effects []boot.Effect
				state, effects = boot.Step(state, e, at)
				all = append(all, effects...)
			}
			for range boot.Facts() {
				for _, f := range boot.Facts() {
					if f != bad {
						step(boot.FactProven{Attempt: 1, Fact: f}, 0)
					}
				}
			}
			step(end, at)
			return all
		}
		failed := faultsOf(t, prove(boot.FactFailed{Attempt: 1, Fact: bad, Fault: why(bad)}, 0))
		if len(failed) != 1 || failed[0].Fact != bad || failed[0].Fault.Component != bad.String() {
			t.Errorf("%s failed: %v", bad, failed)
		}
		late := faultsOf(t, prove(boot.Tick{}, time.Minute))
		if want := fault.Code("boot." + bad.String() + "_overdue"); len(late) != 1 || late[0].Fault.Code != want {
			t.Errorf("%s late: %v", bad, late)
		}
		nameless := faultsOf(t, prove(boot.FactFailed{Attempt: 1, Fact: bad}, 0))
		if len(nameless) != 1 || nameless[0].Fault == nil {
			t.Errorf("%s failed without a fault: %v", bad, nameless)
		}
		_, effects := boot.Step(available(t, boot.Settings{}), boot.ResourceLost{Attempt: 1, Fact: bad, Fault: why(bad)}, 0)
		if !slices.ContainsFunc(effects, func(e boot.Effect) bool { f, ok := e.(boot.NodeFaulted); return ok && f.Fact == bad }) {
			t.Errorf("%s lost: %v", bad, effects)
		}
	}
}

func faultsOf(t *testing.T, effects []boot.Effect) []boot.BootFaulted {
	t.Helper()
	var faults []boot.BootFaulted
	for _, e := range effects {
		switch e := e.(type) {
		case boot.NodeAvailable:
			t.Error("the node is available without all facts")
		case boot.BootFaulted:
			faults = append(faults, e)
		}
	}
	return faults
}

// A snapshot stays what it was.
func TestAStepLeavesTheFormerStateAlone(t *testing.T) {
	before := available(t, boot.Settings{})
	copied := before
	boot.Step(before, boot.ResourceLost{Attempt: 1, Fact: boot.Arena, Fault: why(boot.Arena)}, time.Second)
	if before != copied {
		t.Error("a step changed the state it was given")
	}
}

func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 1, 0, 1, 1, 1, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := settings(len(b)%2 == 0)
		state := boot.New(s)
		var log []told
		now := time.Duration(0)
		for ; len(b) >= 4 && len(log) < 100; b = b[4:] {
			now += time.Duration(b[3]) * 10 * time.Millisecond
			attempt, fact := uint32(b[1]%4), boot.Fact(b[2]%10)
			e := []boot.Event{
				boot.AttemptStarted{Attempt: attempt},
				boot.FactProven{Attempt: attempt, Fact: fact},
				boot.FactFailed{Attempt: attempt, Fact: fact},
				boot.ResourceLost{Attempt: attempt, Fact: fact},
				boot.LeaveAsked{},
				boot.Tick{},
			}[b[0]%6]
			log = append(log, told{e, now})
			state, _ = boot.Step(state, e, now)
			_ = state.Checklist(now)
		}
		if o := judge(log, s); o.phase != state.Phase {
			t.Fatalf("%s, the contract says %s, after %+v", state.Phase, o.phase, log)
		}
	})
}

// No proof is given more time than any may take.
func TestTheMostBoundsEveryProof(t *testing.T) {
	s := settings(false)
	s.Most = 3 * time.Second
	_, effects := boot.Step(boot.New(s), boot.AttemptStarted{Attempt: 1}, time.Minute)
	asked := 0
	for _, e := range effects {
		if p, ok := e.(boot.Prove); ok {
			asked++
			if want := time.Minute + min(s.Within[p.Fact], s.Most); p.By != want {
				t.Errorf("%s is due at %s, want %s", p.Fact, p.By, want)
			}
		}
	}
	if asked == 0 {
		t.Error("no proof was asked for")
	}
}
