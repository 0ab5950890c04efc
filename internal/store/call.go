package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"muster/internal/fault"
)

// callWithin bounds a call whose context ends later or never.
const callWithin = 10 * time.Second

// work is done inside a transaction; a fault or error of its own undoes it.
type work func(ctx context.Context, tx *sql.Tx) error

// change does work in the one transaction that may write, and returns once it
// is on the disk.
func (s *Store) change(ctx context.Context, op string, do work) error {
	return s.call(ctx, op, s.write, do)
}

// view does work that reads, all of it of one instant.
func (s *Store) view(ctx context.Context, op string, do work) error {
	return s.call(ctx, op, s.read, do)
}

func (s *Store) call(ctx context.Context, op string, db *sql.DB, do work) error {
	if !s.enter() {
		return fault.New(fault.StoreClosed, component, "op", op)
	}
	defer s.calls.Done()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if err := inTx(ctx, db, do); err != nil {
		return s.fault(ctx, op, began, err)
	}
	return nil
}

// enter counts a call in, unless the store is closed.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Add(1)
	return true
}

func inTx(ctx context.Context, db *sql.DB, do work) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(ctx, tx); err != nil {
		_ = tx.Rollback() // the reason is in err; one that cannot roll back loses its connection
		return err
	}
	return tx.Commit()
}

// fault types what went wrong in a call. ctx is the call's own.
func (s *Store) fault(ctx context.Context, op string, began time.Time, err error) *fault.Fault {
	var typed *fault.Fault
	if errors.As(err, &typed) {
		return typed
	}
	var refusal *sqlite.Error
	if errors.As(err, &refusal) {
		return s.refused(refusal)
	}
	switch ctx.Err() {
	case nil:
		return fault.New(fault.InternalUnexpected, component).Because(err)
	case context.DeadlineExceeded:
		return fault.New(fault.StoreCallOverdue, component, "op", op, "waited", time.Since(began).Round(time.Millisecond))
	default:
		return fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
	}
}

// refused types what SQLite says. Its primary code is the low byte.
func (s *Store) refused(err *sqlite.Error) *fault.Fault {
	if err.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // no room for the -shm file
		return fault.New(fault.StoreDiskFull, component, "path", s.dir).Because(err)
	}
	switch err.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return fault.New(fault.StoreDiskFull, component, "path", s.dir).Because(err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return s.corrupt("SQLite cannot read it").Because(err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return fault.New(fault.StoreFileHeld, component, "path", s.path()).Because(err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return fault.New(fault.StoreFolderUnwritable, component, "path", s.dir).Because(err)
	case sqlite3.SQLITE_IOERR:
		return fault.New(fault.StoreDiskFailed, component, "path", s.dir, "what", "it did not read or write as asked").Because(err)
	}
	return fault.New(fault.InternalUnexpected, component).Because(err)
}
