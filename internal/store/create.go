package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
)

// create makes the file where there is none: under another name, which it loses
// once it is whole and on the disk. So a file with the right name is never one
// that somebody began and did not end.
func (s *Store) create(ctx context.Context, steps []string) error {
	_, err := os.Stat(s.path())
	if !errors.Is(err, fs.ErrNotExist) {
		return s.folderError(err)
	}
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }() // its memory is what was written
	if err := migrate(ctx, db, 0, steps); err != nil {
		return err
	}
	begun := s.path() + ".begun"
	if err := s.save(ctx, db, begun); err != nil {
		_ = os.Remove(begun) // a later one does not mind
		return err
	}
	return nil
}

// save writes the database to the file begun and gives it the store's name.
func (s *Store) save(ctx context.Context, db *sql.DB, begun string) error {
	// SQLite would let others read what it makes. Its side files take the mode
	// of this one.
	f, err := os.OpenFile(begun, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return s.folderFault(err)
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", begun)
	if err == nil {
		err = s.folderError(f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.folderError(os.Rename(begun, s.path()))
}

// folderError is folderFault for what may be no error.
func (s *Store) folderError(err error) error {
	if err == nil {
		return nil
	}
	return s.folderFault(err)
}
