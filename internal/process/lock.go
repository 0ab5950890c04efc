package process

import "errors"

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")
