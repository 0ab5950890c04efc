//go:build unix

package arena

import (
	"os"
	"testing"

	"muster/internal/fault"
)

func TestAnEndIsAttachedOnce(t *testing.T) {
	p := newPair(t, 64)
	b := other(t, p.arena)
	for name, at := range map[string]*Arena{"the same process": p.arena, "another": b} {
		pw, pr, cw, cr := bells(t)
		_, err := at.Producer(p.lease.Place(), pw, pr)
		wantFault(t, err, fault.ArenaEndTaken)
		_, err = at.Consumer(p.lease.Place(), cw, cr)
		wantFault(t, err, fault.ArenaEndTaken)
		if _, err := pr.Write([]byte{1}); err != nil {
			t.Errorf("%s: a refused attach took the doorbell: %v", name, err)
		}
	}
	roundTrip(t, p, "the refusals changed nothing")
	for _, f := range []func() error{p.producer.Detach, p.consumer.Detach, p.producer.Detach, p.consumer.Detach} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	pw, pr, _, _ := bells(t)
	_, err := p.arena.Producer(p.lease.Place(), pw, pr)
	wantFault(t, err, fault.ArenaEndTaken)
	wantFault(t, p.producer.Write(t.Context(), []byte{1}), fault.ArenaEndClosed)
	_, err = p.consumer.Read(t.Context(), make([]byte, 1))
	wantFault(t, err, fault.ArenaEndClosed)
}

func TestAPlaceOfAReleasedRingIsRefused(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	pw, pr, _, _ := bells(t)
	_, err = a.Producer(l.Place(), pw, pr)
	wantFault(t, err, fault.ArenaRingCorrupt)
	if _, err := a.Lease(64); err != nil { // the same range under another id
		t.Fatal(err)
	}
	_, err = a.Producer(l.Place(), pw, pr)
	wantFault(t, err, fault.ArenaRingCorrupt)
}

func TestImpossiblePlacesAreRefused(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(4096)
	if err != nil {
		t.Fatal(err)
	}
	good := l.Place()
	pw, pr, _, _ := bells(t)
	for name, change := range map[string]func(*Place){
		"no capacity":                func(p *Place) { p.Capacity = 0 },
		"capacity of no power":       func(p *Place) { p.Capacity = 4097 },
		"capacity beyond the file":   func(p *Place) { p.Capacity = 1 << 16 },
		"greatest capacity":          func(p *Place) { p.Capacity = 1 << 63 },
		"in the file's header":       func(p *Place) { p.Offset = 0 },
		"between grains":             func(p *Place) { p.Offset += 8 },
		"at the end of the file":     func(p *Place) { p.Offset = 1 << 16 },
		"beyond the file":            func(p *Place) { p.Offset = 1 << 40 },
		"beyond all files":           func(p *Place) { p.Offset = 1<<64 - grain },
		"data beyond the file's end": func(p *Place) { p.Offset = 1<<16 - grain },
	} {
		p := good
		change(&p)
		_, err := a.Producer(p, pw, pr)
		if f := fault.From(err); f == nil || f.Code != fault.ArenaPlaceInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Place){
		"another id":       func(p *Place) { p.Ring++ },
		"another capacity": func(p *Place) { p.Capacity /= 2 },
		"no ring there":    func(p *Place) { p.Offset += 4 * grain },
	} {
		p := good
		change(&p)
		_, err := a.Producer(p, pw, pr)
		if f := fault.From(err); f == nil || f.Code != fault.ArenaRingCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Producer(good, pw, pr); err != nil {
		t.Errorf("the good place after the bad: %v", err)
	}
}

// A wait that cannot be cancelled could hang for ever.
func TestADoorbellThatCannotBeCancelledIsRefused(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	pw, pr, _, _ := bells(t)
	plain, err := os.Create(t.TempDir() + "/no pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, err = a.Producer(l.Place(), plain, pr)
	wantFault(t, err, fault.ArenaBellRefused)
	gone, _, _, _ := bells(t)
	gone.Close()
	_, err = a.Producer(l.Place(), gone, pr)
	wantFault(t, err, fault.ArenaBellRefused)
	if _, err := a.Producer(l.Place(), pw, pr); err != nil {
		t.Errorf("a good doorbell after the bad: %v", err)
	}
}

// Passing a file to a child makes it blocking; attaching takes that back.
func TestADoorbellMadeBlockingStillEnds(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	_, _, cw, cr := bells(t)
	cw.Fd()
	cr.Fd()
	c, err := a.Consumer(l.Place(), cw, cr)
	if err != nil {
		t.Fatal(err)
	}
	read := after(func() error { _, err := c.Read(t.Context(), make([]byte, 1)); return err })
	asleep(t, c.end)
	if err := c.Detach(); err != nil {
		t.Fatal(err)
	}
	wantFault(t, result(t, read), fault.ArenaEndClosed)
}

func TestAfterTheArenaNothingIsTouched(t *testing.T) {
	p := newPair(t, 64)
	place := p.lease.Place()
	for range 2 {
		if err := p.arena.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantFault(t, p.producer.Write(t.Context(), []byte{1}), fault.ArenaEndClosed)
	_, err := p.consumer.Read(t.Context(), make([]byte, 1))
	wantFault(t, err, fault.ArenaEndClosed)
	p.producer.Commit()
	p.producer.CloseWrite()
	p.consumer.Done()
	if err := p.producer.Detach(); err != nil {
		t.Error(err)
	}
	if c := p.lease.Counters(); c != (Counters{}) {
		t.Errorf("counters %+v", c)
	}
	wantFault(t, p.lease.Release(), fault.ArenaClosed)
	_, err = p.arena.Lease(64)
	wantFault(t, err, fault.ArenaClosed)
	pw, pr, _, _ := bells(t)
	_, err = p.arena.Producer(place, pw, pr)
	wantFault(t, err, fault.ArenaClosed)
}
