//go:build unix

package identity

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

const modesMatter = true

// open does not wait for a writer where path is a named pipe.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}

// owners are the user who owns the file and the one this process runs as.
func owners(fi fs.FileInfo) (owner, us string) {
	us = "user " + strconv.Itoa(os.Geteuid())
	stat, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return us, us
	}
	return "user " + strconv.FormatUint(uint64(stat.Uid), 10), us
}

// syncFolder makes a new name in folder outlast a loss of power.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = f.Sync()
	// Some network file systems keep no order between folder and file.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
