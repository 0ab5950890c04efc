package edge

import (
	"errors"
	"fmt"
	"io"

	"muster/internal/wire"
)

// pump passes records from an intake to write, one after the other.
type pump struct {
	cfg   Config
	way   way
	in    *intake
	guard *guard
	write func(b []byte) error
	whole func()       // a record has been passed on
	probe func() error // why the stream has ended; nil where it does not say

	frame wire.Frame
	next  uint64 // sequence of the next record
}

// record passes one record on. What it returns is a fault of this package, an
// error of write, io.EOF where the source ended before the record, or an error
// of the source.
func (p *pump) record() error {
	if err := p.begin(); err != nil {
		return err
	}
	err := p.pass(p.frame.Size())
	if err == nil {
		p.next++
		p.cfg.Meter.records.Add(1)
		p.whole()
	}
	return err
}

// begin reads and judges the head of the next record, which the intake then
// holds.
func (p *pump) begin() error {
	if err := p.header(); err != nil {
		return err
	}
	if err := p.in.need(p.frame.Head); err != nil {
		return err
	}
	if err := p.frame.Judge(p.in.held(), p.cfg.Limits); err != nil {
		return p.cfg.unsound(p.way, err)
	}
	return nil
}

// header waits for the next record, for as long as it takes, and judges its
// fixed header.
func (p *pump) header() error {
	if err := p.in.start(); err != nil {
		return err
	}
	if p.way == from { // the shorter end mark may stand here
		if err := p.in.need(endSize); err != nil {
			return err
		}
		if isEnd(p.in.held()) {
			return p.end()
		}
	}
	if err := p.in.need(wire.HeaderSize); err != nil {
		return err
	}
	if err := p.frame.Begin(p.in.held(), p.cfg.Limits); err != nil {
		return p.cfg.unsound(p.way, err)
	}
	p.in.grant(p.frame.Size())
	return p.cfg.wrong(p.way, p.frame.Kind, p.frame.Sequence, p.next)
}

// leastPiece is how much of a large record goes on at once: each piece may wake
// the reader of a ring.
const leastPiece = 64 << 10

// pass hands on size bytes: in one piece where they fit into the window.
func (p *pump) pass(size int) error {
	piece := leastPiece
	if size <= window {
		piece = size
	}
	for size > 0 {
		if err := p.in.need(min(piece, size)); err != nil {
			return err
		}
		b := p.in.held()
		b = b[:min(len(b), size)]
		p.cfg.Meter.enter(Passing)
		if err := p.write(b); err != nil {
			return err
		}
		p.cfg.Meter.passed(len(b))
		p.cfg.Meter.enter(Inside)
		p.in.use(len(b))
		size -= len(b)
	}
	return nil
}

// errEnded says that the end mark came and was right.
var errEnded = errors.New("the stream has said its end")

// end judges an end mark and that nothing comes behind it.
func (p *pump) end() error {
	if what := checkEnd(p.in.held(), p.next); what != "" {
		return p.cfg.badEnd(what)
	}
	p.in.use(endSize)
	switch err := p.in.need(1); {
	case err == nil:
		return p.cfg.badEnd(fmt.Sprintf("%d bytes or more come behind it", len(p.in.held())))
	case errors.Is(err, io.EOF):
		return errEnded
	default:
		return err
	}
}

// errStopped says that the context of the caller has ended.
var errStopped = errors.New("stopped on request")

// verdict turns what the pump ended with into errStopped, a fault, or nil. It
// is given before the guard is released.
func (p *pump) verdict(err error) error {
	why := p.guard.why()
	switch {
	case err == nil || errors.Is(err, errEnded):
		return nil
	case errors.Is(why, errOverdue):
		return p.cfg.overdue(p.way, p.in.got, p.in.waited)
	case errors.Is(why, errGone):
		return p.cfg.lost(p.way, p.probe())
	case why != nil:
		return errStopped
	case p.way == toward && errors.Is(err, io.ErrUnexpectedEOF):
		return p.cfg.refused(p.way, fmt.Sprintf("the ring ended after %d bytes of it", p.in.got))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return p.cfg.cut(fmt.Sprintf("after %d bytes of a record", p.in.got))
	case err == io.EOF: //nolint:errorlint // faults have it in their chain too
		return p.cfg.cut("without its mark")
	}
	return err
}
