//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock takes the lock that the file at path stands for, and makes the file. The
// kernel frees it at the process' death, however that comes; the file stays,
// since one that removes it could free another's. Where another process has it,
// the error is ErrLocked and holder its pid, "?" in the instant before it is
// written.
func Lock(path string) (l *os.File, holder string, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", err
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, holderOf(f), ErrLocked
		}
		return nil, "", err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		Unlock(f)
		return nil, "", err
	}
	return f, "", nil
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func holderOf(f *os.File) string {
	content, _ := io.ReadAll(io.LimitReader(f, 32)) // what it holds is only shown
	if pid := strings.TrimSpace(string(content)); pid != "" {
		return pid
	}
	return "?"
}

// Unlock frees a lock. No pid is left to be mistaken for the next one's.
func Unlock(l *os.File) {
	_ = l.Truncate(0)
	_ = l.Close()
}
