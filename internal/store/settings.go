package store

import (
	"context"
	"database/sql"
	"errors"
)

// Setting returns a value by its name; found is false where it was never set.
func (s *Store) Setting(ctx context.Context, key string) (value string, found bool, err error) {
	err = s.view(ctx, "Setting", func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT value FROM setting WHERE key = ?", key).Scan(&value)
		found = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, found, err
}

// SetSetting gives a value its name, in place of any before it.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	return s.change(ctx, "SetSetting", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO setting (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2", key, value)
		return err
	})
}
