package node

import (
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

// The system refuses a file as large as the arena; the next attempt finds the
// limit lifted.
func TestAnArenaThatIsRefused(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	lift := func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer lift()
	n := o.run(o.config(fakeworker.Knobs{}))
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	if f := latest[event.NodeFaulted](n); f.Fact != boot.Arena.String() || f.Fault.Code != fault.ArenaCreateRefused {
		t.Errorf("%s faulted: %v", f.Fact, f.Fault)
	}
	if count[event.NodeBecameAvailable](n) != 0 {
		t.Error("the node was available")
	}
	lift()
	n.available(1)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}
