package edge

import (
	"context"
	"errors"
	"io"
)

// In passes records from a stream, whose preamble has been read, to a ring. It
// returns nil when the stream has ended with its mark, and when ctx has ended,
// the stream then being cancelled. Otherwise the stream is cancelled and the
// error is a fault: what the ring gave, such as arena.ring_closed, or
// edge.stream_dropped, edge.stream_ended, edge.record_refused, edge.record_overdue,
// edge.sequence_broken, edge.end_broken. The ring is its owner's to end; after
// anything but the mark it may hold a part of a record.
func In(ctx context.Context, cfg Config, r Receiver, sink Sink) error {
	cfg = cfg.filled()
	cfg.Meter.begin()
	defer cfg.Meter.enter(Ended)
	g := newGuard(ctx, r.SetReadDeadline)
	p := &pump{
		cfg: cfg, way: from, guard: g, whole: sink.Commit,
		in:    newIntake(stream{cfg, r}, g, cfg),
		write: func(b []byte) error { return sink.Write(g.ctx, b) },
	}
	var err error
	for err == nil {
		err = p.record()
	}
	err = p.verdict(err)
	g.release()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStopped):
		r.Cancel(CodeStopped)
		return nil
	}
	r.Cancel(CodeFaulted)
	return err
}

// stream reads a Receiver whose failure is one of the edge.
type stream struct {
	cfg Config
	r   Receiver
}

func (s stream) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // readers give io.EOF itself
		err = s.cfg.lost(from, err)
	}
	return n, err
}
