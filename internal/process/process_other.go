//go:build !linux

package process

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Of is the mark of a process that runs.
func Of(pid int) Mark { return Mark{PID: pid} }

// Stopped reports whether a signal has stopped a process; here it is not known.
func Stopped(int) bool { return false }

// Alive reports whether a process of that pid runs; here it may be a later one.
func (m Mark) Alive() bool {
	p, err := os.FindProcess(m.PID)
	if m.PID <= 0 || err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // it was only asked after
	if runtime.GOOS == "windows" {
		return true // it could be opened
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}
