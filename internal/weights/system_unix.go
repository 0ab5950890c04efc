//go:build linux || darwin

package weights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func supported() error { return nil }

// lock takes the file's lock, which ends with the process; false where another
// holds it.
func lock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// syncFolder puts a name on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// unlinked is a file whose name is taken away at once.
func unlinked(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "muster-*.gguf")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
