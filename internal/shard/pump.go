package shard

import (
	"context"
	"errors"
	"io"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Source gives the bytes of records that come in; Done says that one has been
// served: what it led to has gone out.
type Source interface {
	Reader(ctx context.Context) io.Reader
	Done()
}

// Sink takes the bytes of records that go out; Commit says that one is whole.
type Sink interface {
	Write(ctx context.Context, b []byte) error
	Commit()
}

// Pump steps one record after the other until ctx ends or the other end of a
// ring lets go (nil), or until a record cannot be served (its fault). The end
// of a neighbour is no fault of this stage: who watches the processes knows
// which one went and why. What goes out is numbered anew, from 0: a record of
// which nothing was left leaves no gap on the edge behind. A record with the
// sequence 0 is the first of who feeds the shard from then on, a doctor and then
// an edge, and the first that goes out after it has 0 too.
func (s *Shard) Pump(ctx context.Context, in Source, out Sink) error {
	r, lim := in.Reader(ctx), s.Limits()
	var from, to wire.Record
	var buf []byte
	var sent uint64
	for {
		err := wire.ReadRecord(r, lim, &from)
		if err == nil {
			err = s.Step(&from, &to)
		}
		if err == nil && from.Sequence == 0 {
			sent = 0
		}
		if err == nil && len(to.Items) > 0 { // all of its items may have been stale
			to.Sequence = sent
			sent++
			buf, err = pass(ctx, out, &to, buf[:0])
		}
		switch {
		case err == nil:
			in.Done()
		case ended(ctx, err):
			return nil
		default:
			return err
		}
	}
}

func pass(ctx context.Context, out Sink, r *wire.Record, buf []byte) ([]byte, error) {
	buf, err := r.Append(buf)
	if err != nil {
		return buf, err
	}
	if err := out.Write(ctx, buf); err != nil {
		return buf, err
	}
	out.Commit()
	return buf, nil
}

// ended tells the end of the pump from a fault of it.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, fault.ArenaRingClosed)
}
