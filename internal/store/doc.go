// Package store keeps what the orchestrator must still know after a crash: its
// pools with their epochs, the journal of events, its runs, the keys of clients
// with the ledger of their credit, its settings. All of it is one SQLite file in
// one folder, which one process owns:
//
//	     calls from any goroutine, each with a context
//	                        |
//	      changes           |            views
//	         v              |              v
//	one connection          |      up to 4 connections,
//	BEGIN IMMEDIATE         |      query only, each view
//	COMMIT = fsync          |      of one instant
//	         |              |              |
//	         +---> muster.db, -wal, -shm <-+
//
//	muster.lock: flock, held from Open to Close or death; holds the pid
//
// What a change has acknowledged survives the death of the process and of the
// machine. A change that ended in a fault was not acknowledged: nothing of it
// is seen, save that after a disk which failed in the very fsync a restart may
// find it there.
//
// Every call ends within 10 s, sooner where its context says so, with a typed
// fault. The exception is a disk that hangs inside one system call: no deadline
// reaches there, and the call hangs with it.
//
// The ledger is added to and never changed; a key's balance is the sum of its
// entries, at every instant and after every death. A request reserves, and is
// then settled or released, once: calls may be repeated. It is not kept within
// bounds as the journal is: two entries a request, some 300 bytes, stay for good.
//
// The store keeps and gives back. It knows nothing of readiness, placement or
// time: order comes from sequences and epochs, and no clock decides anything.
// The composing package owns the Store; it is told nothing and tells nobody.
package store

import (
	"context"
	"time"

	"muster/internal/event"
	"muster/internal/id"
)

// Pools is the store of pool definitions. A replicated store can take its
// place, as that of the interfaces below.
type Pools interface {
	SetPool(ctx context.Context, p Pool) (Pool, error)
	Pool(ctx context.Context, name string) (Pool, error)
	Pools(ctx context.Context) ([]Pool, error)
}

// Journal is the store of events.
type Journal interface {
	Append(ctx context.Context, events ...event.Stamped) (last uint64, err error)
	Since(ctx context.Context, sequence uint64, limit int) ([]Entry, error)
	Last(ctx context.Context) (uint64, error)
}

// Runs is the store of runs.
type Runs interface {
	BeginRun(ctx context.Context, r Run) error
	EndRun(ctx context.Context, run id.RunID, o Outcome) error
	Run(ctx context.Context, run id.RunID) (Run, error)
	Runs(ctx context.Context, limit int) ([]Run, error)
	UnfinishedRuns(ctx context.Context) ([]Run, error)
}

// Accounts is the store of clients' keys and of their credit.
type Accounts interface {
	CreateKey(ctx context.Context, n NewKey) (k Key, secret string, err error)
	HasKeys(ctx context.Context) (bool, error)
	FindKey(ctx context.Context, secret string) (Key, error)
	Keys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, which string, at time.Time) (Key, error)
	Grant(ctx context.Context, which, request string, tokens int64, at time.Time) (Key, error)
	Reserve(ctx context.Context, r Reservation) error
	Settle(ctx context.Context, request string, cost int64, at time.Time) error
	Release(ctx context.Context, request, why string, at time.Time) error
	OpenReservations(ctx context.Context) ([]Reservation, error)
	Ledger(ctx context.Context, key string, after uint64, limit int) ([]LedgerEntry, error)
}

// Settings is the store of small values by name.
type Settings interface {
	Setting(ctx context.Context, key string) (value string, found bool, err error)
	SetSetting(ctx context.Context, key, value string) error
}

var (
	_ Pools    = (*Store)(nil)
	_ Journal  = (*Store)(nil)
	_ Runs     = (*Store)(nil)
	_ Accounts = (*Store)(nil)
	_ Settings = (*Store)(nil)
)
