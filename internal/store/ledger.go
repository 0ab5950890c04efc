package store

import (
	"context"
	"database/sql"
	"math"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Kind is what an entry of the ledger records.
type Kind string

// The kinds. A request has one entry Reserved and later one of Settled and
// Released, never both and never twice.
const (
	Granted  Kind = "grant"   // credit was added
	Reserved Kind = "reserve" // credit was set aside for a request
	Settled  Kind = "settle"  // it was delivered: what it did not cost came back
	Released Kind = "release" // all of it came back
)

// LedgerEntry is one entry, which is never changed. The balance of a key is the
// sum of its entries.
type LedgerEntry struct {
	Sequence uint64 // from 1, rising, over all keys
	Key      string // its id
	Kind     Kind
	Request  string   // of a grant the one that asked for it
	Tokens   int64    // what it adds to the balance; of Reserved below 0
	Run      id.RunID // that served the request; zero of a grant
	Why      string   // of Released: a fault's code
	Time     time.Time
}

// Reservation is credit that is set aside for a request.
type Reservation struct {
	Request string // names it in all of the ledger; never used again
	Key     string // its id
	Run     id.RunID
	Tokens  int64 // 1 or more
	Time    time.Time
}

const mostRequest = 128 // bytes of a request's name

// Grant adds to the credit of a key, by its id or name, once for each request:
// asking again changes nothing.
//
// Faults: key.name_unknown, key.credit_unlimited, key.credit_invalid,
// key.request_invalid, key.request_repeated where it was another request, and
// those of any call.
func (s *Store) Grant(ctx context.Context, which, request string, tokens int64, at time.Time) (k Key, err error) {
	if tokens < 1 || tokens > MostCredit {
		return Key{}, creditInvalid(tokens)
	}
	if err := nameable(request); err != nil {
		return Key{}, err
	}
	err = s.change(ctx, "Grant", func(ctx context.Context, tx *sql.Tx) error {
		if k, err = findKey(ctx, tx, which); err != nil {
			return err
		}
		e := LedgerEntry{Key: k.ID, Kind: Granted, Request: request, Tokens: tokens, Time: at}
		switch had, err := begun(ctx, tx, e); {
		case err != nil || had:
			return err
		case k.Revoked != nil:
			return fault.New(fault.KeyNameUnknown, component, "name", which)
		case k.Unlimited:
			return fault.New(fault.KeyCreditUnlimited, component, "name", k.Name)
		case k.Granted > MostCredit-tokens:
			return creditInvalid(tokens)
		}
		if err := e.insert(ctx, tx); err != nil {
			return err
		}
		k, err = keyOf(ctx, tx, k.ID)
		return err
	})
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// Reserve sets credit aside for a request, if the key's balance covers it. Asking
// again while it is open changes nothing.
//
// Faults: key.credit_spent, key.secret_revoked, key.request_invalid,
// key.request_repeated where it was another request or has ended, and those of
// any call.
func (s *Store) Reserve(ctx context.Context, r Reservation) error {
	if err := nameable(r.Request); err != nil {
		return err
	}
	if r.Tokens < 1 || r.Tokens > MostCredit {
		return requestInvalid(r.Request, "it reserves nothing, or more than there can be")
	}
	return s.change(ctx, "Reserve", func(ctx context.Context, tx *sql.Tx) error {
		k, err := findKey(ctx, tx, r.Key)
		if err != nil {
			return err
		}
		e := LedgerEntry{Key: k.ID, Kind: Reserved, Request: r.Request, Tokens: -r.Tokens, Run: r.Run, Time: r.Time}
		had, err := begun(ctx, tx, e)
		switch {
		case err != nil:
			return err
		case had:
			return stillOpen(ctx, tx, r.Request)
		case k.Revoked != nil:
			return fault.New(fault.KeySecretRevoked, component, "name", k.Name)
		case !k.Unlimited && k.Balance < r.Tokens:
			return fault.New(fault.KeyCreditSpent, component, "name", k.Name, "balance", k.Balance, "want", r.Tokens)
		}
		return e.insert(ctx, tx)
	})
}

// Settle ends a request that cost so many tokens, at most what it reserved: these
// are spent, and the rest of the reservation is given back. One that has ended
// stays as it ended. Faults: key.reservation_unknown, and those of any call.
func (s *Store) Settle(ctx context.Context, request string, cost int64, at time.Time) error {
	return s.change(ctx, "Settle", func(ctx context.Context, tx *sql.Tx) error {
		return end(ctx, tx, request, func(reserved int64) LedgerEntry {
			return LedgerEntry{Kind: Settled, Tokens: reserved - min(max(0, cost), reserved), Time: at}
		})
	})
}

// Release ends a request that costs nothing: all of its reservation is given
// back. One that has ended stays as it ended. Faults: key.reservation_unknown,
// and those of any call.
func (s *Store) Release(ctx context.Context, request, why string, at time.Time) error {
	return s.change(ctx, "Release", func(ctx context.Context, tx *sql.Tx) error {
		return end(ctx, tx, request, func(reserved int64) LedgerEntry {
			return LedgerEntry{Kind: Released, Tokens: reserved, Why: why, Time: at}
		})
	})
}

// OpenReservations returns those that are not ended: at start, what a process
// that died has left.
func (s *Store) OpenReservations(ctx context.Context) (open []Reservation, err error) {
	err = s.view(ctx, "OpenReservations", func(ctx context.Context, tx *sql.Tx) error {
		open, err = collect(ctx, tx, scanReservation, selectReservation+"ORDER BY time, request")
		return err
	})
	return open, err
}

// Ledger returns the entries of a key, by its id, after a sequence, oldest first,
// at most limit and never more than 10,000.
func (s *Store) Ledger(ctx context.Context, key string, after uint64, limit int) (entries []LedgerEntry, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.view(ctx, "Ledger", func(ctx context.Context, tx *sql.Tx) error {
		entries, err = collect(ctx, tx, scanEntry, selectEntry+"WHERE key = ? AND sequence > ? ORDER BY sequence LIMIT ?",
			key, min(after, math.MaxInt64), min(limit, mostAtOnce))
		return err
	})
	return entries, err
}
