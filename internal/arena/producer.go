package arena

import (
	"context"
	"os"
)

// piece is the most that is copied before the other end is told: large enough
// that telling costs nothing, small enough that both ends copy at the same time.
const piece = 256 << 10

// Producer is the writing end of a ring, for one goroutine at a time. Detach
// may come from any.
type Producer struct {
	end  *end
	done bool // CloseWrite was called
}

// Producer attaches to the writing end of the ring at p. wait is the doorbell
// that the consumer rings, ring the one that wakes it; on success both belong to
// the producer and Detach closes them. Each end can be attached once in the life
// of a ring. Faults: arena.place_invalid, arena.ring_corrupted,
// arena.end_taken, arena.doorbell_refused, arena.memory_closed.
func (a *Arena) Producer(p Place, wait, ring *os.File) (*Producer, error) {
	e, err := a.attach(ProducerEnd, p, wait, ring)
	if err != nil {
		return nil, err
	}
	return &Producer{end: e}, nil
}

// Write writes all of b, which may be larger than the ring, and sleeps while
// the ring is full. Once the consumer is known to be gone it fails with
// arena.ring_closed; a consumer that was killed is noticed when the doorbell is
// used, so up to a ring's length can still be written to nobody. Where ctx ends
// while it sleeps, its cause is returned; if a part of b is in the ring by then,
// the stream is torn and takes no further byte. Other faults:
// arena.ring_corrupted, arena.end_closed.
func (p *Producer) Write(ctx context.Context, b []byte) error {
	e := p.end
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	for rest := b; len(rest) > 0; {
		if err := e.look(); err != nil {
			return err
		}
		if e.closed {
			e.broken = e.left()
			return e.broken
		}
		if free := len(e.data) - int(e.held(e.theirs)); free > 0 {
			rest = rest[p.put(rest, free):]
			continue
		}
		if err := p.awaitRoom(ctx, len(rest)); err != nil {
			if e.broken == nil && len(rest) < len(b) {
				e.broken = e.used("tore a record")
			}
			return err
		}
	}
	return nil
}

// put copies what fits in one go into the ring and returns how much that was.
func (p *Producer) put(b []byte, free int) int {
	e := p.end
	at := int(e.mine & uint64(len(e.data)-1))
	n := copy(e.data[at:], b[:min(len(b), free, piece)])
	e.advance(n)
	return n
}

// awaitRoom sleeps until the rest fits or half the ring is free: a consumer that
// reads in small bites wakes the producer once, not at each.
func (p *Producer) awaitRoom(ctx context.Context, rest int) error {
	e := p.end
	room := min(rest, max(len(e.data)/2, 1))
	return e.await(ctx, e.mine+uint64(room)-uint64(len(e.data)))
}

func (p *Producer) usable() error {
	if p.end.broken != nil {
		return p.end.broken
	}
	if p.done {
		return p.end.used("has ended its stream")
	}
	return nil
}

// Commit counts one record as written.
func (p *Producer) Commit() {
	p.end.mu.Lock()
	defer p.end.mu.Unlock()
	if !p.end.gone {
		p.end.own.records.Add(1)
	}
}

// CloseWrite ends the stream: the consumer reads what is in the ring, then
// io.EOF. It waits for nobody. Closing twice does nothing.
func (p *Producer) CloseWrite() {
	p.end.mu.Lock()
	defer p.end.mu.Unlock()
	if !p.done && p.end.broken == nil {
		p.done = true
		p.end.say(finished)
	}
}

// Detach lets go of the ring and closes both doorbell files. Without CloseWrite
// before it the consumer reads what is in the ring, then gets
// arena.ring_closed. Detaching twice does nothing.
func (p *Producer) Detach() error { return p.end.detach() }
