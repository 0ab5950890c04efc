package edge

import (
	"context"
	"errors"
	"io"
	"os"
)

// Out writes the preamble and then passes records from a ring to a stream. It
// returns nil when ctx has ended, the stream then being cancelled, and when the
// ring has ended between two records, the stream then being ended with its
// mark. Otherwise the stream is cancelled and the error is a fault: what the
// ring gave, such as arena.ring_closed, or edge.stream_dropped,
// edge.stream_refused, edge.record_refused, edge.record_overdue,
// edge.sequence_broken. It notices at any time that the stream has ended.
func Out(ctx context.Context, cfg Config, source Source, to Sender) error {
	cfg = cfg.filled()
	cfg.Meter.begin()
	defer cfg.Meter.enter(Ended)
	g := newGuard(ctx, to.SetWriteDeadline)
	watched := g.watch(to.Done())
	p := &pump{
		cfg: cfg, way: toward, guard: g, whole: source.Done,
		in:    newIntake(source.Reader(g.ctx), g, cfg),
		write: func(b []byte) error { return put(cfg, to, b) },
		probe: func() error { return ending(to) },
	}
	err := p.verdict(p.out())
	g.release()
	<-watched
	return finish(cfg, to, err)
}

func (p *pump) out() error {
	if err := p.write(p.cfg.preamble().Append(nil)); err != nil {
		return err
	}
	for {
		err := p.record()
		if err == io.EOF { //nolint:errorlint // a ring gives io.EOF itself, faults have it in their chain
			return p.write(endMark(p.next))
		}
		if err != nil {
			return err
		}
	}
}

// put writes b to a stream whose failure is one of the edge.
func put(cfg Config, to Sender, b []byte) error {
	if _, err := to.Write(b); err != nil {
		return cfg.lost(toward, err)
	}
	return nil
}

// ending is why a stream has ended, nil where it does not say.
func ending(to Sender) error {
	_, err := to.Write(nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// finish ends a stream as the verdict on it asks.
func finish(cfg Config, to Sender, err error) error {
	switch {
	case err == nil:
		if err := to.CloseWrite(); err != nil {
			return cfg.lost(toward, err)
		}
		return nil
	case errors.Is(err, errStopped):
		to.Cancel(CodeStopped)
		return nil
	}
	to.Cancel(CodeFaulted)
	return err
}
