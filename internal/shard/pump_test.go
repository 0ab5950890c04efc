package shard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
)

// belt is a source and a sink over memory; left is told how many records had
// been committed when each was done.
type belt struct {
	in        *bytes.Buffer
	out       bytes.Buffer
	committed int
	done      []int
	broken    error
}

func (b *belt) Reader(context.Context) io.Reader { return b.in }
func (b *belt) Done()                            { b.done = append(b.done, b.committed) }
func (b *belt) Commit()                          { b.committed++ }
func (b *belt) Write(_ context.Context, p []byte) error {
	if b.broken != nil {
		return b.broken
	}
	b.out.Write(p)
	return nil
}

// feed is a belt with records, numbered from 0.
func feed(t *testing.T, records ...*wire.Record) *belt {
	t.Helper()
	var buf []byte
	for i, r := range records {
		var err error
		r.Sequence = uint64(i)
		if buf, err = r.Append(buf); err != nil {
			t.Fatal(err)
		}
	}
	return &belt{in: bytes.NewBuffer(buf)}
}

func TestPumpIsDoneWhenTheAnswerIsOut(t *testing.T) {
	var closed int
	s := lastShard(newFakeEngine(t), &closed)
	b := feed(t,
		rowsRecord(wire.Item{Marks: wire.MarkOpen | wire.MarkAnswer, Generation: 2, Count: 1, Extra: opening(t, 5)}),
		rowsRecord(wire.Item{Generation: 1, Position: 1, Count: 1}), // stale: nothing goes out
		rowsRecord(wire.Item{Marks: wire.MarkAnswer, Generation: 2, Position: 1, Count: 1}),
	)
	if err := s.Pump(t.Context(), b, b); err != nil {
		t.Fatal(err)
	}
	if len(b.done) != 3 || b.done[0] != 1 || b.done[1] != 1 || b.done[2] != 2 {
		t.Errorf("records were done after %v commits, want 1, 1 and 2", b.done)
	}
	var r wire.Record
	for i := range uint64(2) {
		if err := wire.ReadRecord(&b.out, s.Limits(), &r); err != nil || len(r.Answers) != 1 {
			t.Fatalf("%d answers, %v", len(r.Answers), err)
		}
		if r.Sequence != i {
			t.Errorf("record %d has the sequence %d", i, r.Sequence)
		}
	}
}

func TestPumpEndsQuietlyWithItsNeighbours(t *testing.T) {
	var closed int
	record := func() *wire.Record {
		return rowsRecord(wire.Item{Marks: wire.MarkOpen, Generation: 1, Count: 1, Extra: opening(t, 5)})
	}
	b := feed(t, record())
	b.broken = fault.New(fault.ArenaRingClosed, "arena", "ring", 3)
	if err := lastShard(newFakeEngine(t), &closed).Pump(t.Context(), b, b); err != nil {
		t.Errorf("a neighbour that has gone gives %v", err)
	}
	e := newFakeEngine(t)
	e.fail = fault.New(fault.StageRowsNotFinite, "engine")
	b = feed(t, record())
	if err := lastShard(e, &closed).Pump(t.Context(), b, b); !errors.Is(err, fault.StageRowsNotFinite) {
		t.Errorf("its own fault gives %v", err)
	}
	if len(b.done) != 0 || b.out.Len() != 0 {
		t.Errorf("a failed record was done %v and gave %d bytes", b.done, b.out.Len())
	}
}

// A doctor feeds a shard before an edge does, and each numbers from 0.
func TestPumpNumbersAnewForWhoComesNext(t *testing.T) {
	var closed int
	s := lastShard(newFakeEngine(t), &closed)
	visit := func() *belt {
		return feed(t,
			rowsRecord(wire.Item{Marks: wire.MarkOpen, Generation: 1, Count: 1, Extra: opening(t, 5)}),
			rowsRecord(wire.Item{Marks: wire.MarkEnd, Generation: 1, Position: 1}),
		)
	}
	b := visit()
	b.in.Write(visit().in.Bytes())
	if err := s.Pump(t.Context(), b, b); err != nil {
		t.Fatal(err)
	}
	var r wire.Record
	for i, want := range []uint64{0, 1, 0, 1} {
		if err := wire.ReadRecord(&b.out, s.Limits(), &r); err != nil || r.Sequence != want {
			t.Fatalf("record %d has the sequence %d, want %d: %v", i, r.Sequence, want, err)
		}
	}
}
