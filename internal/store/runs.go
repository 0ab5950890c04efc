package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Run is one committed run.
type Run struct {
	ID      id.RunID
	Pool    string
	Epoch   uint64 // of the pool when the plan was committed
	Model   string
	Recipe  json.RawMessage // as the planner writes it; never empty
	Stages  json.RawMessage // as the planner writes it; never empty
	Started time.Time       // for people to read
	Outcome *Outcome        // nil until it has ended
}

// Result is how a run ended.
type Result string

// The results.
const (
	Completed Result = "completed"
	Faulted   Result = "faulted"
	Stopped   Result = "stopped"
)

// Outcome is the end of a run, recorded once.
type Outcome struct {
	Result Result
	Fault  *fault.Fault // the first cause of a faulted run, nil in the others
	Ended  time.Time    // for people to read
}

// BeginRun records a run, if its pool is still at r.Epoch. r.Outcome is not
// looked at.
//
// Faults: store.pool_changed, store.pool_unknown, store.run_repeated where the
// id is taken, store.run_invalid, and those of any call.
func (s *Store) BeginRun(ctx context.Context, r Run) error {
	switch {
	case r.ID.IsZero():
		return runInvalid(r.ID, "it has no id")
	case !json.Valid(r.Recipe):
		return runInvalid(r.ID, "its recipe is not JSON")
	case !json.Valid(r.Stages):
		return runInvalid(r.ID, "its stages are not JSON")
	}
	return s.change(ctx, "BeginRun", func(ctx context.Context, tx *sql.Tx) error {
		var epoch uint64
		err := tx.QueryRowContext(ctx, "SELECT epoch FROM pool WHERE name = ?", r.Pool).Scan(&epoch)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.StorePoolUnknown, component, "pool", r.Pool)
		}
		if err != nil {
			return err
		}
		if epoch != r.Epoch {
			return poolChanged(r.Pool, epoch, r.Epoch)
		}
		done, err := tx.ExecContext(ctx, "INSERT INTO run (id, pool, epoch, model, recipe, stages, started) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
			r.ID[:], r.Pool, r.Epoch, r.Model, string(r.Recipe), string(r.Stages), written(r.Started))
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err == nil && n == 0 {
			return fault.New(fault.StoreRunRepeated, component, "run", r.ID)
		}
		return err
	})
}

// EndRun records the outcome of a run, once: a second one is refused, were it
// the same. So after a fault that leaves it open, read the run.
//
// Faults: store.outcome_recorded, store.run_unknown, store.run_invalid, and
// those of any call.
func (s *Store) EndRun(ctx context.Context, run id.RunID, o Outcome) error {
	reason, err := o.reason(run)
	if err != nil {
		return err
	}
	return s.change(ctx, "EndRun", func(ctx context.Context, tx *sql.Tx) error {
		r, err := readRun(ctx, tx, run)
		if err != nil {
			return err
		}
		if r.Outcome != nil {
			return fault.New(fault.StoreOutcomeRecorded, component, "run", run, "result", r.Outcome.Result)
		}
		_, err = tx.ExecContext(ctx, "UPDATE run SET result = ?, fault = ?, ended = ? WHERE id = ?", string(o.Result), reason, written(o.Ended), run[:])
		return err
	})
}

// reason is the fault of the outcome as it is stored, and nothing where there
// is none to be.
func (o Outcome) reason(run id.RunID) (sql.NullString, error) {
	switch o.Result {
	case Completed, Stopped:
		if o.Fault != nil {
			return sql.NullString{}, runInvalid(run, "it is "+string(o.Result)+" with a fault")
		}
		return sql.NullString{}, nil
	case Faulted:
		if o.Fault == nil {
			return sql.NullString{}, runInvalid(run, "it is faulted without a fault")
		}
		line, err := json.Marshal(o.Fault)
		return sql.NullString{String: string(line), Valid: true}, err
	}
	return sql.NullString{}, runInvalid(run, "no run ends as "+string(o.Result))
}

func runInvalid(run id.RunID, what string) *fault.Fault {
	return fault.New(fault.StoreRunInvalid, component, "run", run, "what", what)
}

const selectRun = "SELECT id, pool, epoch, model, recipe, stages, started, coalesce(result, ''), fault, coalesce(ended, '') FROM run "

// Run returns one run. Faults: store.run_unknown, and those of any call.
func (s *Store) Run(ctx context.Context, run id.RunID) (r Run, err error) {
	err = s.view(ctx, "Run", func(ctx context.Context, tx *sql.Tx) error {
		r, err = readRun(ctx, tx, run)
		return err
	})
	return r, err
}

// Runs returns the runs that began last, the latest first, at most limit and
// never more than 10,000.
func (s *Store) Runs(ctx context.Context, limit int) (runs []Run, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = s.view(ctx, "Runs", func(ctx context.Context, tx *sql.Tx) error {
		runs, err = collect(ctx, tx, scanRun, selectRun+"ORDER BY number DESC LIMIT ?", min(limit, mostAtOnce))
		return err
	})
	return runs, err
}

// UnfinishedRuns returns the runs without an outcome, in the order they began:
// after a crash, those the dead process owes one.
func (s *Store) UnfinishedRuns(ctx context.Context) (runs []Run, err error) {
	err = s.view(ctx, "UnfinishedRuns", func(ctx context.Context, tx *sql.Tx) error {
		runs, err = collect(ctx, tx, scanRun, selectRun+"WHERE result IS NULL ORDER BY number")
		return err
	})
	return runs, err
}

func readRun(ctx context.Context, tx *sql.Tx, run id.RunID) (Run, error) {
	r, err := scanRun(tx.QueryRowContext(ctx, selectRun+"WHERE id = ?", run[:]).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Run{}, fault.New(fault.StoreRunUnknown, component, "run", run)
	}
	return r, err
}

func scanRun(row scan) (r Run, err error) {
	var key, reason []byte
	var result, started, ended string
	if err := row(&key, &r.Pool, &r.Epoch, &r.Model, (*[]byte)(&r.Recipe), (*[]byte)(&r.Stages), &started, &result, &reason, &ended); err != nil {
		return r, err
	}
	copy(r.ID[:], key) // the schema holds its length
	if r.Started, err = time.Parse(time.RFC3339Nano, started); err != nil || result == "" {
		return r, err
	}
	r.Outcome = &Outcome{Result: Result(result)}
	if reason != nil {
		if err := json.Unmarshal(reason, &r.Outcome.Fault); err != nil {
			return r, err
		}
	}
	r.Outcome.Ended, err = time.Parse(time.RFC3339Nano, ended)
	return r, err
}

// written is a time as it is stored.
func written(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
