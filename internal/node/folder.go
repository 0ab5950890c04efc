package node

import (
	"errors"
	"os"
	"path/filepath"

	"muster/internal/fault"
	"muster/internal/process"
)

// lockName is the file whose lock a node holds for as long as it lives.
const lockName = "node.lock"

// takeFolder takes the data folder for this node until leave is called: two
// nodes of one folder would be two boots of one key. Without a folder, and where
// locks are not known, it takes nothing.
func (c *Config) takeFolder() (leave func(), err error) {
	if c.DataDir == "" {
		return func() {}, nil
	}
	unusable := func(err error) error {
		return fault.New(fault.NodeFolderUnwritable, component, "path", c.DataDir).Because(err)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, unusable(err)
	}
	l, holder, err := process.Lock(filepath.Join(c.DataDir, lockName))
	switch {
	case err == nil:
		return func() { process.Unlock(l) }, nil
	case errors.Is(err, process.ErrLocked):
		return nil, fault.New(fault.NodeFolderLocked, component, "path", c.DataDir, "pid", holder)
	case errors.Is(err, errors.ErrUnsupported):
		return func() {}, nil
	}
	return nil, unusable(err)
}
