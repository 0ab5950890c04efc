package edge

import (
	"context"
	"errors"
	"io"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Writer sends records of this process over an edge, for one goroutine at a
// time. It is what Out is for a ring.
type Writer struct {
	cfg    Config
	to     Sender
	buf    []byte
	next   uint64
	broken error // the stream holds a part of a record, or has ended
}

// NewWriter writes the preamble, which makes the stream known to the peer.
// Faults: edge.stream_dropped, edge.stream_refused; the cause of ctx where that
// has ended.
func NewWriter(ctx context.Context, cfg Config, to Sender) (*Writer, error) {
	w := &Writer{cfg: cfg.filled(), to: to}
	w.cfg.Meter.begin()
	if err := w.write(ctx, w.cfg.preamble().Append(nil)); err != nil {
		return nil, err
	}
	return w, nil
}

// Send writes a record, whose sequence must be the number of records before
// it, and waits while the stream is full. Faults: stage.record_invalid,
// edge.record_refused and edge.sequence_broken, after which the edge can be
// used on; edge.stream_dropped, edge.stream_refused; the cause of ctx where that
// has ended. After one of these every Send fails.
func (w *Writer) Send(ctx context.Context, r *wire.Record) error {
	if w.broken != nil {
		return w.broken
	}
	if err := w.cfg.wrong(toward, r.Kind, r.Sequence, w.next); err != nil {
		return err
	}
	var err error
	if w.buf, err = r.Append(w.buf[:0]); err != nil {
		return err
	}
	if err := w.write(ctx, w.buf); err != nil {
		return err
	}
	w.next++
	w.cfg.Meter.records.Add(1)
	w.cfg.Meter.passed(len(w.buf))
	return nil
}

func (w *Writer) write(ctx context.Context, b []byte) error {
	w.cfg.Meter.enter(Passing)
	g := newGuard(ctx, w.to.SetWriteDeadline)
	err := put(w.cfg, w.to, b)
	if err != nil && g.why() != nil {
		err = g.why()
	}
	g.release()
	w.cfg.Meter.enter(Idle)
	if err != nil {
		w.broken = w.cfg.lost(toward, err)
	}
	return err
}

// Close ends the edge: with its mark where all records went out whole, else by
// cancelling it.
func (w *Writer) Close(ctx context.Context) error {
	defer w.cfg.Meter.enter(Ended)
	if w.broken == nil && w.write(ctx, endMark(w.next)) == nil {
		w.broken = w.cfg.lost(toward, nil)
		return finish(w.cfg, w.to, nil)
	}
	w.to.Cancel(CodeStopped)
	return nil
}

// Reader takes the records of an edge for this process, for one goroutine at a
// time. It is what In is for a ring.
type Reader struct {
	pump   pump
	r      Receiver
	broken error
}

// NewReader reads a stream whose preamble has been read.
func NewReader(cfg Config, r Receiver) *Reader {
	cfg = cfg.filled()
	cfg.Meter.begin()
	return &Reader{r: r, pump: pump{cfg: cfg, way: from, in: newIntake(stream{cfg, r}, nil, cfg)}}
}

// Receive reads the next record into into, as wire.ReadRecord does. Where ctx
// ends between two records, its cause is returned and nothing is lost. Faults
// are those of In, and edge.stream_ended with io.EOF in its chain where the peer
// has ended the edge with its mark; after one every Receive fails.
func (r *Reader) Receive(ctx context.Context, into *wire.Record) error {
	if r.broken != nil {
		return r.broken
	}
	p := &r.pump
	g := newGuard(ctx, r.r.SetReadDeadline)
	p.guard, p.in.guard = g, g
	err := p.receive(into)
	torn := p.in.inside
	if err != nil {
		if err = p.verdict(err); err == nil {
			err = p.cfg.blame(p.cfg.fault(from, fault.EdgeStreamEnded, "what", "with its mark")).Because(io.EOF)
		}
	}
	stopped := errors.Is(err, errStopped)
	if stopped {
		err = g.why()
	}
	g.release()
	switch {
	case err == nil:
		p.cfg.Meter.enter(Idle)
	case stopped && torn:
		r.broken = p.cfg.lost(from, err)
		r.r.Cancel(CodeStopped)
	case !stopped:
		r.broken = err
		r.r.Cancel(CodeFaulted)
	}
	return err
}

func (p *pump) receive(into *wire.Record) error {
	if err := p.header(); err != nil {
		return err
	}
	err := wire.ReadRecord(p.in, p.cfg.Limits, into)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, fault.StageRecordInvalid):
		return p.cfg.unsound(from, err)
	case err != nil:
		return err
	}
	p.in.inside = false
	p.next++
	p.cfg.Meter.records.Add(1)
	p.cfg.Meter.passed(p.frame.Size())
	return nil
}

// Close gives the edge up: what comes is refused.
func (r *Reader) Close() {
	if r.broken == nil {
		r.broken = r.pump.cfg.lost(from, nil)
		r.r.Cancel(CodeStopped)
	}
	r.pump.cfg.Meter.enter(Ended)
}

// Pipe is a chain as its user sees it: an edge to the first stage and one from
// the last. One goroutine may send while another receives.
type Pipe struct {
	w       *Writer
	r       *Reader
	lost    context.Context // ends when the edge to the first stage does
	end     context.CancelCauseFunc
	watched chan struct{}
}

// NewPipe puts the two together; they are the pipe's from then on. It watches
// the first edge, so that a Receive does not wait for answers to what cannot
// arrive, until Close.
func NewPipe(w *Writer, r *Reader) *Pipe {
	p := &Pipe{w: w, r: r, watched: make(chan struct{})}
	p.lost, p.end = context.WithCancelCause(context.Background())
	go func() {
		defer close(p.watched)
		select {
		case <-w.to.Done():
			p.end(w.cfg.lost(toward, ending(w.to)))
		case <-p.lost.Done():
		}
	}()
	return p
}

// Send implements infer.Pipe; it is Writer.Send.
func (p *Pipe) Send(ctx context.Context, r *wire.Record) error { return p.w.Send(ctx, r) }

// Receive implements infer.Pipe: it is Reader.Receive, and fails with the
// fault of the first edge where that is lost meanwhile.
func (p *Pipe) Receive(ctx context.Context, r *wire.Record) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.lost, func() { cancel(context.Cause(p.lost)) })()
	return p.r.Receive(ctx, r)
}

// Close ends both edges and the watching. Nobody sends or receives any more.
func (p *Pipe) Close(ctx context.Context) error {
	p.end(nil)
	<-p.watched
	p.r.Close()
	return p.w.Close(ctx)
}
