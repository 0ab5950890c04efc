package preset

import (
	"errors"
	"syscall"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// A disk that runs full in the middle of a probe is said to be, and nothing is
// left on it.
func TestAFullDiskIsSaid(t *testing.T) {
	testkit.Need(t, testkit.Root)
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("root may mount nothing here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	d, err := opened(t, dir).Begin("large")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	of := facts()
	of.Width = 1 << 16
	w, err := d.Probe(of)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Part([][]float32{make([]float32, 2<<16), make([]float32, 3<<16)}, drift(0))
	if err == nil {
		err = w.Part([][]float32{make([]float32, 2<<16), make([]float32, 3<<16)}, drift(1))
	}
	if !errors.Is(err, fault.PresetDiskFull) {
		t.Errorf("got %v, want %s", err, fault.PresetDiskFull)
	}
	d.Discard()
	if left := within(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
