//go:build unix

package local

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ending says in words how a process ended.
func ending(s *os.ProcessState) string {
	ws, ok := s.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return fmt.Sprintf("with exit code %d", s.ExitCode())
	}
	return "by " + unix.SignalName(ws.Signal())
}
