package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"muster/internal/fault"
)

func nameable(request string) error {
	if request == "" || len(request) > mostRequest {
		return requestInvalid(request, "its name is empty or too long")
	}
	return nil
}

func requestInvalid(request, what string) *fault.Fault {
	return fault.New(fault.KeyRequestInvalid, component, "request", request, "what", what)
}

// begun reports whether the ledger has the entry already, which begins a request.
func begun(ctx context.Context, tx *sql.Tx, e LedgerEntry) (bool, error) {
	had, err := scanEntry(tx.QueryRowContext(ctx, selectEntry+"WHERE request = ? AND kind IN ('grant', 'reserve')", e.Request).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case had.Key != e.Key || had.Kind != e.Kind || had.Tokens != e.Tokens:
		return false, fault.New(fault.KeyRequestRepeated, component, "request", e.Request)
	}
	return true, nil
}

// stillOpen refuses a request that has ended: it would be answered for nothing.
func stillOpen(ctx context.Context, tx *sql.Tx, request string) error {
	_, err := reservation(ctx, tx, request)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.KeyRequestRepeated, component, "request", request)
	}
	return err
}

// end ends a request by what makes of its reservation, unless it has ended.
func end(ctx context.Context, tx *sql.Tx, request string, entry func(reserved int64) LedgerEntry) error {
	r, err := reservation(ctx, tx, request)
	if errors.Is(err, sql.ErrNoRows) {
		var ended bool
		err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ledger WHERE request = ? AND kind IN ('settle', 'release'))", request).Scan(&ended)
		if err == nil && !ended {
			err = fault.New(fault.KeyReservationUnknown, component, "request", request)
		}
		return err
	}
	if err != nil {
		return err
	}
	e := entry(r.Tokens)
	e.Key, e.Request, e.Run = r.Key, r.Request, r.Run
	return e.insert(ctx, tx)
}

const selectReservation = "SELECT request, key, tokens, run, time FROM reservation "

func reservation(ctx context.Context, tx *sql.Tx, request string) (Reservation, error) {
	return scanReservation(tx.QueryRowContext(ctx, selectReservation+"WHERE request = ?", request).Scan)
}

func scanReservation(row scan) (r Reservation, err error) {
	var run []byte
	var at string
	if err := row(&r.Request, &r.Key, &r.Tokens, &run, &at); err != nil {
		return r, err
	}
	copy(r.Run[:], run) // the schema holds its length
	r.Time, err = time.Parse(time.RFC3339Nano, at)
	return r, err
}

const selectEntry = "SELECT sequence, key, kind, request, tokens, run, why, time FROM ledger "

func scanEntry(row scan) (e LedgerEntry, err error) {
	var run []byte
	var at string
	if err := row(&e.Sequence, &e.Key, &e.Kind, &e.Request, &e.Tokens, &run, &e.Why, &at); err != nil {
		return e, err
	}
	copy(e.Run[:], run) // the schema holds its length
	e.Time, err = time.Parse(time.RFC3339Nano, at)
	return e, err
}

// insert adds the entry at the end; its sequence is given there.
func (e LedgerEntry) insert(ctx context.Context, tx *sql.Tx) error {
	var run []byte
	if !e.Run.IsZero() {
		run = e.Run[:]
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO ledger (key, kind, request, tokens, run, why, time) VALUES (?, ?, ?, ?, ?, ?, ?)",
		e.Key, string(e.Kind), e.Request, e.Tokens, run, e.Why, written(e.Time))
	return err
}
