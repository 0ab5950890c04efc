package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"regexp"
	"time"

	"muster/internal/fault"
)

// MostCredit is the largest credit of a key in tokens, all that was ever granted
// together.
const MostCredit = 1<<53 - 1

// Key is a client's key, without its secret. Amounts are tokens.
type Key struct {
	ID        string     `json:"id"`   // k and 12 hexadecimal digits
	Name      string     `json:"name"` // one of the keys that count
	Created   time.Time  `json:"created"`
	Revoked   *time.Time `json:"revoked,omitempty"` // nil: it counts
	Unlimited bool       `json:"unlimited"`
	Granted   int64      `json:"granted"`
	Reserved  int64      `json:"reserved"` // by requests under way
	Spent     int64      `json:"spent"`
	Balance   int64      `json:"balance"` // granted less reserved and spent; of one without limit it goes below 0
}

// NewKey is what a key is made from.
type NewKey struct {
	Name      string    `json:"name"`
	Unlimited bool      `json:"unlimited,omitempty"`
	Credit    int64     `json:"credit,omitempty"` // 0: to be granted later; of one without limit always 0
	Created   time.Time `json:"-"`                // for people to read
}

// The secret of a key is so many random bytes behind a mark by which people and
// scanners know it.
const (
	secretBytes = 32
	secretMark  = "msk-"
)

var (
	lower    = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	keyName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	keyIDish = regexp.MustCompile(`^k[0-9a-f]{12}$`)
)

// hashOf is how a secret is kept. A plain SHA-256 is enough: it holds 256 random
// bits, so that there is nothing to guess which a slow hash would make dearer,
// and every request pays for this one.
func hashOf(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// CreateKey makes a key and its secret, which is told here and never again.
//
// Faults: key.name_invalid, key.name_taken, key.credit_invalid, and those of any
// call.
func (s *Store) CreateKey(ctx context.Context, n NewKey) (k Key, secret string, err error) {
	switch {
	case !keyName.MatchString(n.Name) || keyIDish.MatchString(n.Name):
		return Key{}, "", fault.New(fault.KeyNameInvalid, component, "name", n.Name)
	case n.Unlimited && n.Credit != 0:
		return Key{}, "", fault.New(fault.KeyCreditInvalid, component, "tokens", n.Credit, "want", "give a credit or no limit, not both")
	case n.Credit < 0 || n.Credit > MostCredit:
		return Key{}, "", creditInvalid(n.Credit)
	}
	var drawn [secretBytes + 6]byte
	_, _ = rand.Read(drawn[:]) // it ends the program where there is no chance to be had
	secret = secretMark + lower.EncodeToString(drawn[:secretBytes])
	hash, id := hashOf(secret), "k"+hex.EncodeToString(drawn[secretBytes:])
	err = s.change(ctx, "CreateKey", func(ctx context.Context, tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "INSERT INTO api_key (id, name, hash, unlimited, created) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) WHERE revoked IS NULL DO NOTHING",
			id, n.Name, hash[:], n.Unlimited, written(n.Created))
		if err != nil {
			return err
		}
		if made, err := done.RowsAffected(); err != nil {
			return err
		} else if made == 0 {
			return fault.New(fault.KeyNameTaken, component, "name", n.Name)
		}
		if n.Credit > 0 {
			first := LedgerEntry{Key: id, Kind: Granted, Request: id, Tokens: n.Credit, Time: n.Created}
			if err := first.insert(ctx, tx); err != nil {
				return err
			}
		}
		k, err = keyOf(ctx, tx, id)
		return err
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

func creditInvalid(tokens int64) *fault.Fault {
	return fault.New(fault.KeyCreditInvalid, component, "tokens", tokens, "want", "give a whole number from 1, and no more than 9007199254740991 together with what was granted before")
}

// HasKeys reports whether there ever was a key: from then on requests need one,
// be it that all were revoked.
func (s *Store) HasKeys(ctx context.Context) (has bool, err error) {
	err = s.view(ctx, "HasKeys", func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM api_key)").Scan(&has)
	})
	return has, err
}

// FindKey is the key that a secret opens. Faults: key.secret_unknown,
// key.secret_revoked, and those of any call.
//
// How long it takes says nothing of the secrets there are: what is looked up and
// compared are hashes, of which nobody can choose a part.
func (s *Store) FindKey(ctx context.Context, secret string) (k Key, err error) {
	want := hashOf(secret)
	err = s.view(ctx, "FindKey", func(ctx context.Context, tx *sql.Tx) error {
		var id string
		var hash []byte
		err := tx.QueryRowContext(ctx, "SELECT id, hash FROM api_key WHERE hash = ?", want[:]).Scan(&id, &hash)
		if errors.Is(err, sql.ErrNoRows) || err == nil && subtle.ConstantTimeCompare(hash, want[:]) != 1 {
			return fault.New(fault.KeySecretUnknown, component)
		}
		if err != nil {
			return err
		}
		if k, err = keyOf(ctx, tx, id); err == nil && k.Revoked != nil {
			err = fault.New(fault.KeySecretRevoked, component, "name", k.Name)
		}
		return err
	})
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// Keys returns all keys, in the order they were made.
func (s *Store) Keys(ctx context.Context) (keys []Key, err error) {
	err = s.view(ctx, "Keys", func(ctx context.Context, tx *sql.Tx) error {
		keys, err = collect(ctx, tx, scanKey, selectKey+"ORDER BY number")
		return err
	})
	return keys, err
}

// RevokeKey takes a key, by its id or name, out of use for good: later requests
// with it are refused. Those under way go on and are settled. One that is revoked
// stays as it is. Faults: key.name_unknown, and those of any call.
func (s *Store) RevokeKey(ctx context.Context, which string, at time.Time) (k Key, err error) {
	err = s.change(ctx, "RevokeKey", func(ctx context.Context, tx *sql.Tx) error {
		if k, err = findKey(ctx, tx, which); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE api_key SET revoked = ? WHERE id = ? AND revoked IS NULL", written(at), k.ID); err != nil {
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

const selectKey = "SELECT id, name, created, coalesce(revoked, ''), unlimited, granted, reserved, spent, balance FROM api_key "

// findKey is a key by its id, else the one of a name that counts.
func findKey(ctx context.Context, tx *sql.Tx, which string) (Key, error) {
	k, err := scanKey(tx.QueryRowContext(ctx, selectKey+"WHERE id = ?1 OR name = ?1 AND revoked IS NULL", which).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, fault.New(fault.KeyNameUnknown, component, "name", which)
	}
	return k, err
}

func keyOf(ctx context.Context, tx *sql.Tx, id string) (Key, error) {
	return scanKey(tx.QueryRowContext(ctx, selectKey+"WHERE id = ?", id).Scan)
}

func scanKey(row scan) (k Key, err error) {
	var created, revoked string
	if err := row(&k.ID, &k.Name, &created, &revoked, &k.Unlimited, &k.Granted, &k.Reserved, &k.Spent, &k.Balance); err != nil {
		return k, err
	}
	if k.Created, err = time.Parse(time.RFC3339Nano, created); err != nil || revoked == "" {
		return k, err
	}
	at, err := time.Parse(time.RFC3339Nano, revoked)
	k.Revoked = &at
	return k, err
}
