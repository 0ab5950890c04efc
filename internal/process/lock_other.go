//go:build !unix

package process

import (
	"errors"
	"os"
)

// Lock refuses with errors.ErrUnsupported: two processes on one folder would
// not be seen here.
func Lock(string) (l *os.File, holder string, err error) {
	return nil, "", errors.ErrUnsupported
}

// Unlock frees a lock.
func Unlock(l *os.File) { _ = l.Close() }
