package arena

import (
	"context"
	"io"
	"os"
)

// Consumer is the reading end of a ring, for one goroutine at a time. Detach
// may come from any.
type Consumer struct {
	end *end
}

// Consumer attaches to the reading end of the ring at p. wait is the doorbell
// that the producer rings, ring the one that wakes it; on success both belong to
// the consumer and Detach closes them. Each end can be attached once in the life
// of a ring; what the producer has written before is read. Faults as of Producer.
func (a *Arena) Consumer(p Place, wait, ring *os.File) (*Consumer, error) {
	e, err := a.attach(ConsumerEnd, p, wait, ring)
	if err != nil {
		return nil, err
	}
	return &Consumer{end: e}, nil
}

// Read fills b with what there is, at least one byte, and sleeps while the ring
// is empty. Bytes written before the producer went away are still read; then
// comes io.EOF where it had ended the stream, else arena.ring_closed. Where ctx
// ends while Read sleeps, its cause is returned and nothing is lost. Other
// faults: arena.ring_corrupted, arena.end_closed.
func (c *Consumer) Read(ctx context.Context, b []byte) (int, error) {
	e := c.end
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil || len(b) == 0 {
		return 0, e.broken
	}
	if err := e.await(ctx, e.mine+1); err != nil {
		return 0, err
	}
	held := int(e.held(e.theirs))
	if held == 0 {
		return 0, c.ended()
	}
	at := int(e.mine & uint64(len(e.data)-1))
	n := copy(b[:min(len(b), held, piece)], e.data[at:])
	e.advance(n)
	return n, nil
}

// ended tells a stream that has ended from one that was abandoned. It goes by
// the state that was read before the cursor: a later one may speak of bytes not
// seen yet.
func (c *Consumer) ended() error {
	if c.end.seen&finished != 0 {
		return io.EOF
	}
	c.end.broken = c.end.left()
	return c.end.broken
}

// Reader reads with one context. It holds for as long as the consumer does.
func (c *Consumer) Reader(ctx context.Context) io.Reader { return reader{ctx, c} }

type reader struct {
	ctx      context.Context
	consumer *Consumer
}

func (r reader) Read(b []byte) (int, error) { return r.consumer.Read(r.ctx, b) }

// Done counts one record as consumed.
func (c *Consumer) Done() {
	c.end.mu.Lock()
	defer c.end.mu.Unlock()
	if !c.end.gone {
		c.end.own.records.Add(1)
	}
}

// Detach lets go of the ring and closes both doorbell files; the producer's
// next Write fails with arena.ring_closed. Detaching twice does nothing.
func (c *Consumer) Detach() error { return c.end.detach() }
