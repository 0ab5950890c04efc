//go:build unix

package arena

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
)

// The manager against a map of grains: first fit, no overlap, ids that rise,
// everything free again in the end.
func TestLeasesAreFirstFitAndDisjoint(t *testing.T) {
	const grains = 40
	rapid.Check(t, func(rt *rapid.T) {
		a, err := Create(grains * grain)
		if err != nil {
			rt.Fatal(err)
		}
		defer a.Close()
		used := [grains]bool{0: true} // the file's header
		live := map[*Lease]int{}
		var last uint64
		rt.Repeat(map[string]func(*rapid.T){
			"lease": func(rt *rapid.T) {
				capacity := rapid.IntRange(1, 12*grain).Draw(rt, "capacity")
				rounded := 1 << bits.Len(uint(capacity-1))
				need := 1 + (rounded+grain-1)/grain
				want := fit(used[:], need)
				l, err := a.Lease(capacity)
				if want < 0 {
					wantFault(rt, err, fault.ArenaSpaceShort)
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				p := l.Place()
				if p.Ring <= last || p.Offset != uint64(want*grain) || p.Capacity != uint64(rounded) {
					rt.Fatalf("got %+v after ring %d, want grain %d and %d bytes", p, last, want, rounded)
				}
				last = p.Ring
				live[l] = need
				mark(used[:], want, need, true)
			},
			"release": func(rt *rapid.T) {
				for l, need := range live {
					if err := l.Release(); err != nil {
						rt.Fatal(err)
					}
					delete(live, l)
					mark(used[:], int(l.Place().Offset/grain), need, false)
					return
				}
			},
		})
	})
}

// fit is the first of need free grains in a row, or -1.
func fit(used []bool, need int) int {
	run := 0
	for i, u := range used {
		if run++; u {
			run = 0
		}
		if run == need {
			return i - need + 1
		}
	}
	return -1
}

func mark(used []bool, from, n int, as bool) {
	for i := range n {
		used[from+i] = as
	}
}

func TestARangeComesBackClean(t *testing.T) {
	a := newArena(t, 4*grain)
	l, err := a.Lease(grain)
	if err != nil {
		t.Fatal(err)
	}
	p := attachBoth(t, a, l)
	if err := p.producer.Write(t.Context(), []byte("secret")); err != nil {
		t.Fatal(err)
	}
	p.producer.Commit()
	letGo(t, p)
	again, err := a.Lease(grain)
	if err != nil {
		t.Fatal(err)
	}
	old, fresh := l.Place(), again.Place()
	if fresh.Offset != old.Offset || fresh.Ring == old.Ring {
		t.Errorf("leased %+v after %+v", fresh, old)
	}
	if c := again.Counters(); c != (Counters{}) {
		t.Errorf("a fresh ring counts %+v", c)
	}
	if b := a.memory[fresh.Offset+grain]; b != 0 {
		t.Errorf("it holds %q of the ring before", b)
	}
	q := attachBoth(t, a, again)
	roundTrip(t, q, "x")
}

func TestAHeldLeaseIsNotReleased(t *testing.T) {
	p := newPair(t, 64)
	held := func(holder End, dead ...End) {
		t.Helper()
		err := p.lease.Release(dead...)
		wantFault(t, err, fault.ArenaLeaseHeld)
		if got := fault.From(err).Attr("holder"); got != holder.String() {
			t.Errorf("held by %q, want the %s", got, holder)
		}
	}
	held(ProducerEnd)
	held(ProducerEnd, ProducerEnd, ConsumerEnd) // no death of an end that is held here is believed
	roundTrip(t, p, "a refused release changes nothing")
	if err := p.producer.Detach(); err != nil {
		t.Fatal(err)
	}
	held(ConsumerEnd)
	held(ConsumerEnd, ProducerEnd)
	if err := p.consumer.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := p.lease.Release(); err != nil {
		t.Fatal(err)
	}
	wantFault(t, p.lease.Release(), fault.ArenaLeaseReleased)
	if c := p.lease.Counters(); c != (Counters{}) {
		t.Errorf("a released lease counts %+v", c)
	}
}

// other maps the arena a second time, as another process does.
func other(t *testing.T, a *Arena) *Arena {
	t.Helper()
	b, err := Map(duplicate(t, a.File()), a.Size())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestADeadEndIsReleasedOnlyByName(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	b := other(t, a)
	pw, pr, cw, cr := bells(t)
	c, err := b.Consumer(l.Place(), cw, cr)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, l.Release(), fault.ArenaLeaseHeld)
	wantFault(t, l.Release(ProducerEnd), fault.ArenaLeaseHeld)
	p, err := a.Producer(l.Place(), pw, pr) // the refusals have not barred the free end
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Detach(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ConsumerEnd); err != nil {
		t.Fatal(err)
	}
	// A consumer that was called dead and lives learns it, and harms nobody.
	_, err = c.Read(t.Context(), make([]byte, 1))
	wantFault(t, err, fault.ArenaRingCorrupt)
	next, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	q := attachBoth(t, a, next)
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, q, "the next ring does not notice")
}

func TestOnlyTheOwnerLeases(t *testing.T) {
	a := newArena(t, 1<<16)
	_, err := other(t, a).Lease(64)
	wantFault(t, err, fault.ArenaPlaceInvalid)
	for _, capacity := range []int{0, -1} {
		_, err = a.Lease(capacity)
		wantFault(t, err, fault.ArenaPlaceInvalid)
	}
	for _, capacity := range []int{1 << 16, 1 << 30, math.MaxInt} {
		_, err = a.Lease(capacity)
		wantFault(t, err, fault.ArenaSpaceShort)
	}
}
