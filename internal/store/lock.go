package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"muster/internal/fault"
	"muster/internal/process"
)

// takeLock takes the folder for this process.
func (s *Store) takeLock() (*os.File, error) {
	l, holder, err := process.Lock(filepath.Join(s.dir, lockName))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, process.ErrLocked):
		return nil, fault.New(fault.StoreFolderLocked, component, "path", s.dir, "pid", holder)
	case errors.Is(err, errors.ErrUnsupported):
		return nil, fault.New(fault.PlatformUnsupported, component, "what", "a store", "platform", runtime.GOOS)
	}
	return nil, s.folderFault(err)
}
