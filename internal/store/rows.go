package store

import (
	"context"
	"database/sql"
)

// scan reads the columns of one row.
type scan func(columns ...any) error

// collect returns what each row of a query says.
func collect[T any](ctx context.Context, tx *sql.Tx, each func(scan) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // what failed is in rows.Err
	var found []T
	for rows.Next() {
		one, err := each(rows.Scan)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}
