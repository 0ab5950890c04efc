//go:build unix && !linux

package child

import "golang.org/x/sys/unix"

// replace makes fd the same as with.
func replace(with, fd int) error { return unix.Dup2(with, fd) }
