package control_test

import (
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errCancelled = errors.New("the stream was cancelled")

// memory is one end of a stream held in memory: like one of the endpoint, with
// a window, deadlines and cancellation.
type memory struct {
	in, out *direction
	expiry  *time.Timer
}

// newStream makes both ends of a stream on which each side may be so many bytes
// ahead of the other's reader.
func newStream(window int) (caller, server *memory) {
	there, back := newDirection(window), newDirection(window)
	return &memory{in: back, out: there}, &memory{in: there, out: back}
}

func (s *memory) Read(b []byte) (int, error)  { return s.in.read(b) }
func (s *memory) Write(b []byte) (int, error) { return s.out.write(b) }
func (s *memory) Done() <-chan struct{}       { return s.out.done }

func (s *memory) CloseWrite() error {
	s.out.end(nil)
	return nil
}

func (s *memory) Cancel(uint32) {
	s.in.end(errCancelled)
	s.out.end(errCancelled)
}

func (s *memory) SetDeadline(t time.Time) error {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.in.expire(&s.in.readerLate, false)
	s.out.expire(&s.out.writerLate, false)
	if !t.IsZero() {
		s.expiry = time.AfterFunc(time.Until(t), func() {
			s.in.expire(&s.in.readerLate, true)
			s.out.expire(&s.out.writerLate, true)
		})
	}
	return nil
}

// direction is one direction of a stream.
type direction struct {
	mu                     sync.Mutex
	moved                  *sync.Cond
	b                      []byte
	window                 int
	ended                  bool
	broken                 error
	readerLate, writerLate bool
	done                   chan struct{}
}

func newDirection(window int) *direction {
	d := &direction{window: window, done: make(chan struct{})}
	d.moved = sync.NewCond(&d.mu)
	return d
}

func (d *direction) read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.broken != nil:
			return 0, d.broken
		case d.readerLate:
			return 0, os.ErrDeadlineExceeded
		case len(d.b) > 0:
			n := copy(b, d.b)
			d.b = d.b[n:]
			d.moved.Broadcast()
			return n, nil
		case d.ended:
			return 0, io.EOF
		}
		d.moved.Wait()
	}
}

func (d *direction) write(b []byte) (n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.broken != nil:
			return n, d.broken
		case d.ended:
			return n, io.ErrClosedPipe
		case d.writerLate:
			return n, os.ErrDeadlineExceeded
		}
		part := min(len(b)-n, d.window-len(d.b))
		d.b = append(d.b, b[n:n+part]...)
		n += part
		d.moved.Broadcast()
		if n == len(b) {
			return n, nil
		}
		d.moved.Wait()
	}
}

// end ends the direction: with nil after what was written, else at once. What
// has ended and been read whole is not broken any more.
func (d *direction) end(broken error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && d.broken == nil {
		close(d.done)
	}
	if broken == nil {
		d.ended = true
	} else if !d.ended || len(d.b) > 0 {
		d.broken = broken
	}
	d.moved.Broadcast()
}

func (d *direction) expire(late *bool, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*late = is
	d.moved.Broadcast()
}
