package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"testing"

	"muster/internal/event"
	"muster/internal/store"
)

func add(t testing.TB, s *store.Store, numbers ...int) uint64 {
	t.Helper()
	var events []event.Stamped
	for _, n := range numbers {
		events = append(events, started(n))
	}
	last, err := s.Append(context.Background(), events...)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func since(t testing.TB, s *store.Store, sequence uint64, limit int) []store.Entry {
	t.Helper()
	entries, err := s.Since(context.Background(), sequence, limit)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// pid is the number that started put into the event.
func pid(t testing.TB, e store.Entry) int {
	t.Helper()
	var fields struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(e.Line, &fields); err != nil {
		t.Fatal(err)
	}
	return fields.PID
}

func TestEventsComeBackInOrderAsTheyWereTold(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	if last := add(t, s); last != 0 {
		t.Errorf("no event got the sequence %d", last)
	}
	if last, err := s.Last(context.Background()); err != nil || last != 0 {
		t.Errorf("an empty journal ends at %d (%v)", last, err)
	}
	add(t, s, 10)
	if last := add(t, s, 11, 12); last != 3 {
		t.Errorf("the third event got the sequence %d", last)
	}
	closed(t, s)

	s = opened(t, dir)
	if last := add(t, s, 13); last != 4 {
		t.Errorf("after a restart the fourth event got the sequence %d", last)
	}
	entries := since(t, s, 1, 2)
	if len(entries) != 2 || entries[0].Sequence != 2 || entries[1].Sequence != 3 {
		t.Fatalf("two events since 1 are %+v", entries)
	}
	line, err := json.Marshal(started(11))
	if e := entries[0]; err != nil || !bytes.Equal(e.Line, line) || e.Event != "worker.started" || !e.Time.Equal(noon) {
		t.Errorf("%s came back as %+v", line, e)
	}
	for _, empty := range [][]store.Entry{since(t, s, 4, 10), since(t, s, math.MaxUint64, 10), since(t, s, 0, 0), since(t, s, 0, -1)} {
		if len(empty) > 0 {
			t.Errorf("where nothing was asked for there is %+v", empty)
		}
	}
	if last, err := s.Last(context.Background()); err != nil || last != 4 {
		t.Errorf("the journal ends at %d (%v)", last, err)
	}
}

func TestTheJournalKeepsTheLatest(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir, store.KeepEvents(100))
	for n := 1; n <= 350; n++ {
		add(t, s, n)
		entries := since(t, s, 0, 10_000)
		if first := entries[0].Sequence; len(entries) > 100 || len(entries) < min(n, 99) || int(first)+len(entries) != n+1 {
			t.Fatalf("of %d events, %d are kept from %d on", n, len(entries), first)
		}
		if last := entries[len(entries)-1]; pid(t, last) != n {
			t.Fatalf("event %d comes last after %d", pid(t, last), n)
		}
	}
	closed(t, s)

	s = opened(t, dir, store.KeepEvents(1))
	if entries := since(t, s, 0, 10); len(entries) != 1 || entries[0].Sequence != 350 {
		t.Errorf("opened to keep one event, it holds %+v", entries)
	}
	if last := add(t, s, 1, 2, 3); last != 353 {
		t.Errorf("the next event got the sequence %d", last)
	}
	if entries := since(t, s, 0, 10); len(entries) != 1 || pid(t, entries[0]) != 3 {
		t.Errorf("of three events, one to be kept, there are %+v", entries)
	}
}
