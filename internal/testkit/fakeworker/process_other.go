//go:build !unix

package fakeworker

import (
	"os"
	"syscall"
)

func killSelf(int) { os.Exit(1) }

func ownSession() *syscall.SysProcAttr { return nil }
