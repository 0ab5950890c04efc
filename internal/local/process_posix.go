//go:build unix && !linux

package local

import "syscall"

// attributes give the node a group of its own, so that an interrupt from the
// terminal reaches this process alone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
