//go:build unix

package fakeworker

import (
	"os"
	"syscall"
)

func killSelf(number int) { _ = syscall.Kill(os.Getpid(), syscall.Signal(number)) }

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
