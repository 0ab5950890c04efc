package endpoint

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/id"
)

// half is what the streams of both kinds share. opened is set where the
// stream was opened here: it then counts as one of the connection's until
// both its sides have ended.
type half struct {
	c      *conn
	opened bool
	ended  atomic.Uint32 // sides, by bit
}

const (
	readSide  = 1
	writeSide = 2
	bothSides = readSide | writeSide
)

// end notes that a side has ended.
func (h *half) end(side uint32) {
	if before := h.ended.Or(side); h.opened && before != bothSides && before|side == bothSides {
		h.c.busy.Add(-1)
	}
}

func (h *half) Peer() id.NodeID { return h.c.peer }

func (h *half) RemoteAddr() netip.AddrPort { return h.c.address() }

// result turns what a call on one side gave into a fault, and notes an end.
func (h *half) result(n int, err error, side uint32) (int, error) {
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		h.end(side)
		h.c.lost(err)
	}
	if err == io.EOF { //nolint:errorlint // readers compare with io.EOF itself
		return n, io.EOF
	}
	return n, h.c.streamFault(err)
}

// closed notes that the writing side has ended, and returns why it could not
// be closed: the library says no more than that it was cancelled before.
func (h *half) closed(ctx context.Context, err error) error {
	h.end(writeSide)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// stream is a Stream.
type stream struct {
	half
	q *quic.Stream
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.q.Read(p)
	return s.result(n, err, readSide)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.q.Write(p)
	return s.result(n, err, writeSide)
}

// CloseWrite succeeds, too, where the peer's handler has returned with all it
// wanted: it may do so before it sees the end of what it was sent.
func (s *stream) CloseWrite() error {
	err := s.closed(s.q.Context(), s.q.Close())
	var stopped *quic.StreamError
	if errors.As(err, &stopped) && stopped.Remote && stopped.ErrorCode == streamUnread {
		return nil
	}
	return s.c.streamFault(err)
}

// Cancel ends both sides: the library's Close would end only the writing one.
func (s *stream) Cancel(code uint32) {
	s.q.CancelRead(quic.StreamErrorCode(code))
	s.q.CancelWrite(quic.StreamErrorCode(code))
	s.end(readSide)
	s.end(writeSide)
}

func (s *stream) SetDeadline(t time.Time) error      { return s.q.SetDeadline(t) }
func (s *stream) SetReadDeadline(t time.Time) error  { return s.q.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.q.SetWriteDeadline(t) }
func (s *stream) Done() <-chan struct{}              { return s.q.Context().Done() }

// sender is a Sender of a uni-stream.
type sender struct {
	half
	q *quic.SendStream
}

func (s *sender) Write(p []byte) (int, error) {
	n, err := s.q.Write(p)
	return s.result(n, err, writeSide)
}

func (s *sender) CloseWrite() error {
	return s.c.streamFault(s.closed(s.q.Context(), s.q.Close()))
}

func (s *sender) Cancel(code uint32) {
	s.q.CancelWrite(quic.StreamErrorCode(code))
	s.end(writeSide)
}

func (s *sender) SetWriteDeadline(t time.Time) error { return s.q.SetWriteDeadline(t) }
func (s *sender) Done() <-chan struct{}              { return s.q.Context().Done() }

// receiver is a Receiver of a uni-stream.
type receiver struct {
	half
	q *quic.ReceiveStream
}

func (r *receiver) Read(p []byte) (int, error) {
	n, err := r.q.Read(p)
	return r.result(n, err, readSide)
}

func (r *receiver) Cancel(code uint32)                { r.q.CancelRead(quic.StreamErrorCode(code)) }
func (r *receiver) SetReadDeadline(t time.Time) error { return r.q.SetReadDeadline(t) }
