package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
	"muster/internal/store"
	"muster/internal/testkit"
)

// smallDisk is a file system of 1 MiB and a way to fill it up.
func smallDisk(t *testing.T) (dir string, fill func() (free func())) {
	t.Helper()
	testkit.Need(t, testkit.Root)
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("something is left open on the disk: %v", err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	return dir, func() func() {
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 16; size > 0; {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				size /= 2
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTheStoreGoesOnWhenARealFullDiskHasSpaceAgain(t *testing.T) {
	dir, fill := smallDisk(t)
	data := filepath.Join(dir, "data")
	s := opened(t, data)
	p := set(t, s, twoNodes())
	free := fill()
	acknowledged := 0
	for { // what the files have reserved may still take some
		if _, err := s.Append(context.Background(), large(3000)); err != nil {
			wantFault(t, err, fault.StoreDiskFull)
			break
		}
		acknowledged++
	}
	if now, err := s.Pool(context.Background(), "shed"); err != nil || now.Epoch != p.Epoch {
		t.Errorf("on a full disk the pool reads as %+v (%v)", now, err)
	}
	free()
	add(t, s, 1)
	closed(t, s)
	if entries := since(t, opened(t, data), 0, 1000); len(entries) != acknowledged+1 {
		t.Errorf("%d events were acknowledged, %d are there", acknowledged+1, len(entries))
	}
}

// However much is left, the store opens or says that it is too little.
func TestAFullDiskAtStartIsSaid(t *testing.T) {
	for pages := range 40 {
		dir, fill := smallDisk(t)
		spare := filepath.Join(dir, "spare")
		if err := os.WriteFile(spare, make([]byte, pages*os.Getpagesize()), 0o600); err != nil {
			t.Fatal(err)
		}
		fill()
		if err := os.Remove(spare); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(context.Background(), filepath.Join(dir, "data"))
		if err == nil {
			t.Logf("%d pages are enough", pages)
			closed(t, s)
			break
		}
		wantFault(t, err, fault.StoreDiskFull)
	}
}
