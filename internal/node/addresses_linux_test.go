//go:build !race

package node

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

// shortOfAddresses tells a copy of this test that it is the one to run short.
const shortOfAddresses = "MUSTER_TEST_SHORT_OF_ADDRESSES"

// The memory file is made and the system maps it nowhere. A process of its own
// runs short of addresses, since whatever else it needs may be refused too.
func TestAnArenaThatCannotBeMapped(t *testing.T) {
	if os.Getenv(shortOfAddresses) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), shortOfAddresses+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_AS, &old))
	var pages uint64
	statm, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	_, err = fmt.Sscan(string(statm), &pages)
	must(t, err)
	const spare = 2 << 20 // the arena is larger
	must(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + spare, Max: old.Max}))
	n := o.run(cfg)
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	must(t, unix.Setrlimit(unix.RLIMIT_AS, &old))
	if f := latest[event.NodeFaulted](n); f.Fact != boot.Arena.String() || f.Fault.Code != fault.ArenaMapRefused {
		t.Errorf("%s faulted: %v", f.Fact, f.Fault)
	}
	if count[event.NodeBecameAvailable](n) != 0 {
		t.Error("the node was available")
	}
	n.available(1)
	must(t, n.end())
}
