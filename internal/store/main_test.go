package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

func TestMain(m *testing.M) {
	if job := os.Getenv("MUSTER_STORE_CHILD"); job != "" {
		child(job, os.Getenv("MUSTER_STORE_DIR"))
	}
	goleak.VerifyTestMain(m)
}

// opened is the store in dir, closed at the end of the test.
func opened(t testing.TB, dir string, options ...store.Option) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), dir, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

func closed(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// wantFault checks for a fault of a code whose sentence and hint are filled in.
func wantFault(t testing.TB, err error, code fault.Code) *fault.Fault {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	return fault.From(err)
}

func file(dir string) string { return filepath.Join(dir, "muster.db") }

// noon is when everything in these tests happens.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)

func nodeID(n int) (i id.NodeID) {
	binary.BigEndian.PutUint64(i[:], uint64(n))
	return i
}

func runID(n int) (i id.RunID) {
	i[15] = 1 // none of them is "none"
	binary.BigEndian.PutUint64(i[:], uint64(n))
	return i
}

// started is an event that can be told from others by its number.
func started(n int) event.Stamped {
	return event.Stamped{Time: noon, Event: event.WorkerStarted{Worker: "worker 1", PID: n}}
}

func someRun(n int, p store.Pool) store.Run {
	return store.Run{
		ID: runID(n), Pool: p.Name, Epoch: p.Epoch, Model: "tale",
		Recipe: []byte(`{"context":2048}`), Stages: []byte(`[{"layers":[0,4]},{"layers":[4,8]}]`), Started: noon,
	}
}
