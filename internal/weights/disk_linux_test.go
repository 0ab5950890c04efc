package weights

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// TestDiskFull writes into a file system that is too small, once by what it
// says to be free and once by what it then takes.
func TestDiskFull(t *testing.T) {
	testkit.Need(t, testkit.Root)
	s := newSubject(t)
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", len(s.want)/2))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("root may mount nothing here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	c := open(t, filepath.Join(dir, "cache"))
	t.Setenv("TMPDIR", dir)
	for name, try := range map[string]func() error{
		"named":   func() error { _, err := s.slice(c, nil); return err },
		"unnamed": func() error { _, err := s.slice(open(t, ""), nil); return err },
		"without looking first": func() error {
			_, err := c.place(filepath.Join(dir, "cache", slicesFolder, "x"+whole), s.plan.Size, func(w io.Writer) error {
				_, err := w.Write(s.want)
				return err
			})
			return err
		},
	} {
		err := try()
		if !errors.Is(err, fault.CacheDiskFull) || fault.From(err).Attr("need") == "" {
			t.Errorf("%s: got %v", name, err)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: left behind: %v", name, got)
		}
	}
}
