package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"muster/internal/fault"
)

// application marks a file as ours in its header: "Must".
const application = 0x4d757374

//go:embed schema/*.sql
var schema embed.FS

// migrations are the steps that lead from an empty file to the schema of this
// build. A file's version is the number of steps it has been through. A step
// that was released is never changed.
func migrations() []string {
	names, err := fs.Glob(schema, "schema/*.sql") // sorted
	if err != nil {
		panic(err) // the pattern is malformed
	}
	steps := make([]string, 0, len(names))
	for _, name := range names {
		step, err := schema.ReadFile(name)
		if err != nil {
			panic(err) // the file was embedded
		}
		steps = append(steps, string(step))
	}
	return steps
}

// prepare makes the file one that the methods can work on. Nothing is written
// to a file that is refused.
func (s *Store) prepare(ctx context.Context, steps []string) error {
	version, err := s.version(ctx, len(steps))
	if err != nil {
		return err
	}
	var mode string
	if err := s.write.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" && !s.inMemory() {
		return fault.New(fault.StoreDiskFailed, component, "path", s.dir, "what", "it does not let processes share memory through a file")
	}
	if err := migrate(ctx, s.write, version, steps); err != nil {
		return err
	}
	return inTx(ctx, s.write, s.trim)
}

// version reads how many steps the file has been through, and refuses one that
// is not ours, newer than known, or damaged.
func (s *Store) version(ctx context.Context, known int) (version int, err error) {
	var mark, tables int
	if err := s.write.QueryRowContext(ctx, "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version").Scan(&mark, &version, &tables); err != nil {
		return 0, err
	}
	if mark == 0 && version == 0 && tables == 0 {
		return 0, nil
	}
	if mark != application {
		return 0, s.corrupt("it is the database of another program")
	}
	if version > known {
		return 0, fault.New(fault.StoreSchemaNewer, component, "path", s.path(), "version", version, "known", known)
	}
	var verdict string
	if err := s.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return 0, err
	}
	if verdict != "ok" {
		return 0, s.corrupt(verdict)
	}
	return version, nil
}

func (s *Store) corrupt(what string) *fault.Fault {
	return fault.New(fault.StoreFileCorrupt, component, "path", s.path(), "what", what)
}

// migrate takes the steps that the file lacks, all or none.
func migrate(ctx context.Context, db *sql.DB, version int, steps []string) error {
	if version == len(steps) {
		return nil
	}
	return inTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		for _, step := range steps[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return err
			}
		}
		// A PRAGMA takes no parameters.
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", application, len(steps)))
		return err
	})
}
