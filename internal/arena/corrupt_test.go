//go:build unix

package arena

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"unsafe"

	"muster/internal/fault"
)

// Whatever stands where the other end's figures should be, an end says that
// the ring is corrupt, stays by it, and the next ring is untouched.
func TestACorruptedRingIsCalledSo(t *testing.T) {
	for name, change := range map[string]func(h *ringHeader){
		"written ran ahead":      func(h *ringHeader) { h.ends[ProducerEnd].cursor.Add(65) },
		"written went back":      func(h *ringHeader) { h.ends[ProducerEnd].cursor.Add(^uint64(0)) },
		"written is huge":        func(h *ringHeader) { h.ends[ProducerEnd].cursor.Store(1 << 63) },
		"the reader was moved":   func(h *ringHeader) { h.ends[ConsumerEnd].cursor.Add(1) },
		"the writer has no id":   func(h *ringHeader) { h.ends[ProducerEnd].state.Store(attached) },
		"the writer has another": func(h *ringHeader) { h.ends[ProducerEnd].state.Store(stateOf(77, attached)) },
	} {
		t.Run(name+", seen by the consumer", func(t *testing.T) {
			p := newPair(t, 64)
			roundTrip(t, p, "0123456789")
			change(overlay[ringHeader](p.arena.memory, p.lease.Place().Offset))
			for range 2 {
				_, err := p.consumer.Read(t.Context(), make([]byte, 8))
				wantFault(t, err, fault.ArenaRingCorrupt)
			}
		})
	}
	for name, change := range map[string]func(h *ringHeader){
		"read ran ahead":         func(h *ringHeader) { h.ends[ConsumerEnd].cursor.Add(1) },
		"read went back":         func(h *ringHeader) { h.ends[ConsumerEnd].cursor.Store(^uint64(0)) },
		"the writer was moved":   func(h *ringHeader) { h.ends[ProducerEnd].cursor.Add(1) },
		"the reader has no id":   func(h *ringHeader) { h.ends[ConsumerEnd].state.Store(0) },
		"everything was cleared": func(h *ringHeader) { h.clear() },
	} {
		t.Run(name+", seen by the producer", func(t *testing.T) {
			p := newPair(t, 64)
			roundTrip(t, p, "0123456789")
			change(overlay[ringHeader](p.arena.memory, p.lease.Place().Offset))
			for range 2 {
				wantFault(t, p.producer.Write(t.Context(), make([]byte, 8)), fault.ArenaRingCorrupt)
			}
		})
	}
}

func TestARingThatIsCorruptAtTheStartIsNotAttached(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	overlay[ringHeader](a.memory, l.Place().Offset).ends[ProducerEnd].cursor.Store(65)
	pw, pr, cw, cr := bells(t)
	_, err = a.Producer(l.Place(), pw, pr)
	wantFault(t, err, fault.ArenaRingCorrupt)
	_, err = a.Consumer(l.Place(), cw, cr)
	wantFault(t, err, fault.ArenaRingCorrupt)
}

// FuzzRingHeader lets somebody scribble over the header between operations. Each
// six bytes are one step: which end acts, with how many bytes, and which word of
// the header becomes what. Both ends must answer each step with bytes or with a
// fault of the catalogue, and no byte outside the ring's data may change.
func FuzzRingHeader(f *testing.F) {
	for word := range 2 * line / 8 {
		f.Add([]byte{0, 9, byte(word), 0, 1, 0, 1, 9, byte(word), 1, 0xff, 0xff, 0, 200, byte(word + 64), 0, 0, 0})
	}
	f.Add(bytes.Repeat([]byte{0, 60, 255, 0, 0, 0, 1, 7, 255, 0, 0, 0}, 20))
	a := newArena(f, 1<<16)
	guard, err := a.Lease(64)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		l, err := a.Lease(64)
		if err != nil {
			t.Fatal(err)
		}
		p := attachBoth(t, a, l)
		h := overlay[ringHeader](a.memory, l.Place().Offset)
		words := unsafe.Slice((*uint64)(unsafe.Pointer(h)), grain/8)
		for ; len(steps) >= 6; steps = steps[6:] {
			known(t, act(p, steps[0]&1 == 0, int(steps[1])))
			if at := int(steps[2]); at < len(words)/2 && steps[2] != 255 {
				scribble(&words[at], steps[3], binary.LittleEndian.Uint16(steps[4:]))
			}
		}
		known(t, p.producer.Detach())
		known(t, p.consumer.Detach())
		if err := l.Release(ProducerEnd, ConsumerEnd); err != nil {
			t.Fatal(err)
		}
		around := a.memory[guard.Place().Offset+grain : l.Place().Offset]
		behind := a.memory[l.Place().Offset+grain+64:]
		if len(bytes.Trim(around, "\x00")) > 0 || len(bytes.Trim(behind, "\x00")) > 0 {
			t.Fatal("bytes outside the ring were written")
		}
	})
}

// act lets one end do something that does not sleep.
func act(p *pair, write bool, n int) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if write {
		return p.producer.Write(ctx, make([]byte, n%100))
	}
	_, err := p.consumer.Read(ctx, make([]byte, n%100))
	return err
}

// scribble changes a word by a little, sets it to a small number or to a great
// one.
func scribble(word *uint64, how byte, value uint16) {
	switch how % 4 {
	case 0:
		*word += uint64(value)
	case 1:
		*word -= uint64(value)
	case 2:
		*word = uint64(value)
	case 3:
		*word ^= uint64(value) << (how >> 2)
	}
}

func known(t *testing.T, err error) {
	t.Helper()
	var f *fault.Fault
	if err == nil || errors.Is(err, context.Canceled) || err == io.EOF || errors.As(err, &f) {
		return
	}
	t.Fatalf("an untyped error: %v", err)
}

// The owner goes by what it holds itself before it goes by the file.
func TestAScribbledStateFreesNoEndHeldHere(t *testing.T) {
	p := newPair(t, 64)
	h := overlay[ringHeader](p.arena.memory, p.lease.Place().Offset)
	for _, word := range []uint64{0, stateOf(p.lease.Place().Ring, 0), stateOf(p.lease.Place().Ring, attached|detached), 1<<64 - 1} {
		h.ends[ProducerEnd].state.Store(word)
		h.ends[ConsumerEnd].state.Store(word)
		wantFault(t, p.lease.Release(ProducerEnd, ConsumerEnd), fault.ArenaLeaseHeld)
	}
}
