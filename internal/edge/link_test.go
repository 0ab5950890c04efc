package edge

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"muster/internal/fault"
)

// link is a one-way stream in memory, with a window.
type link struct {
	mu        sync.Mutex
	cond      *sync.Cond
	buf       []byte
	window    int
	ended     bool // CloseWrite
	failed    error
	cancelled [2]uint32 // codes, by the side that cancelled: sender, receiver
	deadline  [2]time.Time
	timer     [2]*time.Timer
	done      chan struct{}
	most      int // bytes ever held
}

const (
	sending   = 0
	receiving = 1
)

func newLink(window int) *link {
	l := &link{window: window, done: make(chan struct{})}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *link) sender() linkSender     { return linkSender{l} }
func (l *link) receiver() linkReceiver { return linkReceiver{l} }

// fail ends the link as a lost connection does.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

func (l *link) failLocked(err error) {
	if l.failed == nil {
		l.failed = err
		l.close()
	}
	l.cond.Broadcast()
}

func (l *link) close() {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
}

func (l *link) cancel(side int, code uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelled[side] == 0 {
		l.cancelled[side] = code
	}
	l.failLocked(fault.New("endpoint.stream_cancelled", "endpoint", "stream_code", strconv.Itoa(int(code))))
}

func (l *link) setDeadline(side int, t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer[side] != nil {
		l.timer[side].Stop()
		l.timer[side] = nil
	}
	l.deadline[side] = t
	if !t.IsZero() {
		l.timer[side] = time.AfterFunc(time.Until(t), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.cond.Broadcast()
		})
	}
	l.cond.Broadcast()
	return nil
}

func (l *link) late(side int) bool {
	return !l.deadline[side].IsZero() && !time.Now().Before(l.deadline[side])
}

func (l *link) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buf)
}

func (l *link) code(side int) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancelled[side]
}

type linkSender struct{ *link }

func (s linkSender) Write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.failed != nil:
			return n, s.failed
		case s.ended:
			return n, io.ErrClosedPipe
		case s.late(sending):
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		}
		if free := s.window - len(s.buf); free > 0 {
			k := min(free, len(b)-n)
			s.buf = append(s.buf, b[n:n+k]...)
			s.most = max(s.most, len(s.buf))
			n += k
			s.cond.Broadcast()
			continue
		}
		s.cond.Wait()
	}
}

func (s linkSender) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.close()
	s.cond.Broadcast()
	return s.failed
}
func (s linkSender) Cancel(code uint32)                 { s.cancel(sending, code) }
func (s linkSender) SetWriteDeadline(t time.Time) error { return s.setDeadline(sending, t) }
func (s linkSender) Done() <-chan struct{}              { return s.done }

type linkReceiver struct{ *link }

func (r linkReceiver) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.failed != nil:
			return 0, r.failed
		case r.late(receiving):
			return 0, os.ErrDeadlineExceeded
		case len(r.buf) > 0:
			n := copy(b, r.buf)
			r.buf = r.buf[:copy(r.buf, r.buf[n:])]
			r.cond.Broadcast()
			return n, nil
		case r.ended:
			return 0, io.EOF
		}
		r.cond.Wait()
	}
}
func (r linkReceiver) Cancel(code uint32)                { r.cancel(receiving, code) }
func (r linkReceiver) SetReadDeadline(t time.Time) error { return r.setDeadline(receiving, t) }

// ring is a ring in memory: a link whose calls end with a context.
type ring struct {
	l               *link
	done, committed int
	mu              sync.Mutex
}

func newRing(capacity int) *ring { return &ring{l: newLink(capacity)} }

func (r *ring) Reader(ctx context.Context) io.Reader { return ringReader{ctx, r} }

type ringReader struct {
	ctx context.Context
	r   *ring
}

func (r ringReader) Read(b []byte) (int, error) {
	defer context.AfterFunc(r.ctx, func() { _ = r.r.l.setDeadline(receiving, past) })()
	n, err := r.r.l.receiver().Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.Cause(r.ctx)
	}
	return n, err
}

func (r *ring) Write(ctx context.Context, b []byte) error {
	defer context.AfterFunc(ctx, func() { _ = r.l.setDeadline(sending, past) })()
	_, err := r.l.sender().Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return err
}

func (r *ring) Done()   { r.mu.Lock(); r.done++; r.mu.Unlock() }
func (r *ring) Commit() { r.mu.Lock(); r.committed++; r.mu.Unlock() }

func (r *ring) counts() (done, committed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.committed
}
