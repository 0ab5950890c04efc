package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"muster/internal/fault"
	"muster/internal/process"
)

const (
	component = "store"
	fileName  = "muster.db"
	lockName  = "muster.lock"

	// KeepEventsDefault is how many events the journal keeps.
	KeepEventsDefault = 100_000

	openWithin = 60 * time.Second // a large file is checked and migrated
	readers    = 4
)

// Store is an open folder. Its methods may be called from any goroutine.
type Store struct {
	dir  string // absolute; "" where all is kept in memory
	keep int64  // events

	lock  *os.File
	write *sql.DB // one connection
	read  *sql.DB

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // calls under way; none is added once closed is set
}

// Option changes how Open opens.
type Option func(*Store)

// KeepEvents sets how many events the journal keeps, at least 1; the oldest go.
func KeepEvents(most int) Option {
	return func(s *Store) { s.keep = max(1, int64(most)) }
}

// Open opens the store in dir. It makes what is not there, readable by this user
// alone, brings an older file up to the schema of this build, and looks through
// the whole file for damage.
//
// Faults: store.folder_unwritable, store.folder_locked where another process
// has it open, store.disk_full, store.disk_failed, store.file_corrupt,
// store.schema_newer, store.file_held, store.call_overdue, run.interrupted.
// After a fault the folder is free again, and a file that was there is as it was.
func Open(ctx context.Context, dir string, options ...Option) (*Store, error) {
	return open(ctx, dir, migrations(), options...)
}

func open(ctx context.Context, dir string, steps []string, options ...Option) (*Store, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.New(fault.StoreFolderUnwritable, component, "path", dir).Because(err)
	}
	s := &Store{dir: path, keep: KeepEventsDefault}
	for _, o := range options {
		o(s)
	}
	if err := s.takeFolder(); err != nil {
		return nil, err
	}
	return s.opened(ctx, steps)
}

// Memory opens a store that no folder keeps: it is gone with Close. Faults:
// those of Open that are of no folder.
func Memory(ctx context.Context, options ...Option) (*Store, error) {
	s := &Store{keep: KeepEventsDefault}
	for _, o := range options {
		o(s)
	}
	return s.opened(ctx, migrations())
}

func (s *Store) opened(ctx context.Context, steps []string) (*Store, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	var err error
	if !s.inMemory() {
		err = s.create(ctx, steps)
	}
	if err == nil {
		err = s.connect()
	}
	if err == nil {
		err = s.prepare(ctx, steps)
	}
	if err != nil {
		typed := s.fault(ctx, "Open", began, err)
		_ = s.Close()
		return nil, typed
	}
	return s, nil
}

// Found reports whether a folder has a store, be it open elsewhere.
func Found(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, fileName))
	return err == nil
}

// takeFolder makes the folder and takes its lock.
func (s *Store) takeFolder() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s.folderFault(err)
	}
	lock, err := s.takeLock()
	if err != nil {
		return err
	}
	if info, err := os.Stat(s.path()); err == nil && info.Size() == 0 {
		process.Unlock(lock)
		return s.corrupt("it is empty") // as a loss of power leaves it
	}
	s.lock = lock
	return nil
}

func (s *Store) folderFault(err error) *fault.Fault {
	code := fault.StoreFolderUnwritable
	if errors.Is(err, syscall.ENOSPC) {
		code = fault.StoreDiskFull
	}
	return fault.New(code, component, "path", s.dir).Because(err)
}

func (s *Store) path() string { return filepath.Join(s.dir, fileName) }

func (s *Store) inMemory() bool { return s.dir == "" }

func (s *Store) connect() error {
	var err error
	if s.inMemory() { // the database is its one connection
		s.write, err = sql.Open("sqlite", "file::memory:?_txlock=immediate&_foreign_keys=1&_dqs=0&_error_rc=1")
		if err == nil {
			s.write.SetMaxOpenConns(1)
			s.read = s.write
		}
		return err
	}
	if s.write, err = sql.Open("sqlite", s.address(url.Values{
		"_txlock":      {"immediate"},
		"_synchronous": {"FULL"},
		"_pragma":      {"journal_size_limit(4194304)"},
	})); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", s.address(url.Values{"_query_only": {"1"}})); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return nil
}

// address is the file as the driver takes it, with the settings of a connection.
func (s *Store) address(settings url.Values) string {
	settings.Set("mode", "rw") // a file that was taken away is not made anew
	settings.Set("_busy_timeout", "1000")
	settings.Set("_foreign_keys", "1")
	settings.Set("_dqs", "0")
	settings.Set("_error_rc", "1")
	path := filepath.ToSlash(s.path())
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: settings.Encode()}
	return u.String()
}

// Close waits for the calls under way, at most 10 s, and lets go of the folder.
// Later calls end in store.closed; a second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
	if again {
		return nil
	}
	var failed error
	for _, db := range []*sql.DB{s.read, s.write} { // the last one folds the -wal file in
		if db != nil {
			failed = errors.Join(failed, db.Close())
		}
	}
	if s.lock != nil {
		process.Unlock(s.lock)
	}
	if failed != nil {
		return s.fault(context.Background(), "Close", time.Now(), failed)
	}
	return nil
}
