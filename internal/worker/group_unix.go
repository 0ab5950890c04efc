//go:build linux || darwin

package worker

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
)

const (
	supported  = true
	contSignal = syscall.SIGCONT
)

func unsupported(string) *fault.Fault { return nil }

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// orderly reports whether a process that was asked to stop ended as asked: by
// itself, or by one of Stop's signals. A crash while stopping is not orderly.
func orderly(state *os.ProcessState) bool {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return state.Success()
	}
	return ws.Exited() && ws.ExitStatus() == 0 ||
		ws.Signaled() && (ws.Signal() == syscall.SIGTERM || ws.Signal() == syscall.SIGKILL)
}

// endSignal names the signal that ended the process, "" where it exited.
func endSignal(state *os.ProcessState) string {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return ""
	}
	return signalName(ws.Signal())
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}
