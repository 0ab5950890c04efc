package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

// The disk has no room for the key of a new node, which has no identity then;
// the next attempt finds room.
func TestAKeyThatFindsNoRoom(t *testing.T) {
	testkit.Need(t, testkit.Root)
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k")
	if errors.Is(err, unix.EPERM) {
		t.Skip("root may mount nothing here")
	}
	must(t, err)
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.KeyPath = filepath.Join(dir, "node.key")
	n := o.run(cfg)
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	if f := latest[event.NodeFaulted](n); f.Fact != boot.Identity.String() || f.Fault.Code != fault.IdentityKeyUnwritable || !errors.Is(f.Fault, unix.ENOSPC) {
		t.Errorf("%s faulted: %v", f.Fact, f.Fault)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || count[event.NodeBecameAvailable](n) != 0 {
		t.Errorf("available %d times; left beside the key: %v, %v", count[event.NodeBecameAvailable](n), left, err)
	}
	must(t, os.Remove(filepath.Join(dir, "full")))
	n.available(1)
	must(t, n.end())
}
