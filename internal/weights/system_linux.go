package weights

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nameless makes a file that never has a name, or, where the file system
// cannot, one that loses it at once.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), "slice without a name in "+dir), nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return unlinked(dir)
	}
	return nil, &os.PathError{Op: "open", Path: dir, Err: err}
}

// identity tells a file's content from what it was before and from other
// files', as far as a file system can; changed is when it last did.
func identity(info os.FileInfo) (who string, changed time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}, false
	}
	who = fmt.Sprintln(s.Dev, s.Ino, s.Size, s.Mtim.Nano(), s.Ctim.Nano())
	return who, time.Unix(0, max(s.Mtim.Nano(), s.Ctim.Nano())), true
}
