package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"muster/internal/event"
)

// mostAtOnce bounds what one call reads.
const mostAtOnce = 10_000

// Entry is one event of the journal.
type Entry struct {
	Sequence uint64          // from 1, rising by 1, never given twice
	Time     time.Time       // the teller's clock, for people to read
	Event    string          // its name on the wire
	Line     json.RawMessage // the whole of it, as event.Stamped writes it
}

// Append adds events to the end of the journal, all or none, and returns the
// sequence of the last, 0 for no events. Where the journal then has more than it
// may keep, its oldest go, a hundredth of it at a time. Rows are bounded, not
// bytes: an event is as large as who tells it makes it.
func (s *Store) Append(ctx context.Context, events ...event.Stamped) (last uint64, err error) {
	lines := make([]string, 0, len(events))
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return 0, s.fault(ctx, "Append", time.Now(), err)
		}
		lines = append(lines, string(line))
	}
	if len(lines) == 0 {
		return 0, nil
	}
	err = s.change(ctx, "Append", func(ctx context.Context, tx *sql.Tx) error {
		if last, err = insertLines(ctx, tx, lines); err != nil {
			return err
		}
		return s.trim(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	return last, nil
}

func insertLines(ctx context.Context, tx *sql.Tx, lines []string) (last uint64, err error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO event (line) VALUES (?)")
	if err != nil {
		return 0, err
	}
	defer func() { _ = insert.Close() }()
	for _, line := range lines {
		done, err := insert.ExecContext(ctx, line)
		if err != nil {
			return 0, err
		}
		sequence, err := done.LastInsertId()
		if err != nil {
			return 0, err
		}
		last = uint64(sequence)
	}
	return last, nil
}

// trim removes the oldest events where there are more than may be kept. Since
// sequences have no gaps, ends tell the count.
func (s *Store) trim(ctx context.Context, tx *sql.Tx) error {
	var first, last int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT min(sequence) FROM event), 1), coalesce((SELECT max(sequence) FROM event), 0)").Scan(&first, &last); err != nil {
		return err
	}
	if last-first+1 <= s.keep {
		return nil
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM event WHERE sequence <= ?", last-(s.keep-s.keep/100))
	return err
}

// Since returns the events after a sequence, oldest first, at most limit and
// never more than 10,000. Where the first has a sequence higher than the next
// one, those between have been removed.
func (s *Store) Since(ctx context.Context, sequence uint64, limit int) (entries []Entry, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.view(ctx, "Since", func(ctx context.Context, tx *sql.Tx) error {
		entries, err = collect(ctx, tx, readEntry, "SELECT sequence, line FROM event WHERE sequence > ? ORDER BY sequence LIMIT ?",
			min(sequence, math.MaxInt64), min(limit, mostAtOnce))
		return err
	})
	return entries, err
}

func readEntry(row scan) (e Entry, err error) {
	if err := row(&e.Sequence, (*[]byte)(&e.Line)); err != nil {
		return e, err
	}
	var head struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
	}
	err = json.Unmarshal(e.Line, &head)
	e.Time, e.Event = head.Time, head.Event
	return e, err
}

// Last returns the sequence of the latest event, 0 where there never was one.
func (s *Store) Last(ctx context.Context) (last uint64, err error) {
	err = s.view(ctx, "Last", func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(sequence), 0) FROM event").Scan(&last)
	})
	return last, err
}
