//go:build !linux && !darwin

package worker

import (
	"os"
	"runtime"
	"syscall"

	"muster/internal/fault"
)

// supported is false: Start gives platform.unsupported and nothing below runs.
const (
	supported  = false
	contSignal = syscall.SIGTERM
)

func unsupported(name string) *fault.Fault {
	return fault.New(fault.PlatformUnsupported, name, "what", "a worker process", "platform", runtime.GOOS+"/"+runtime.GOARCH)
}

func attributes() *syscall.SysProcAttr { return nil }

func beforeStart(*os.File, int) {}

// onFirstThread does not matter: no thread is changed here.
func onFirstThread() bool { return false }

func afterStart(*os.File, int, int) {}

func awaitEnd(*os.Process) {}

func stopSignal(int) string { return "" }

func signalGroup(int, syscall.Signal) {}

func orderly(state *os.ProcessState) bool { return state.Success() }

func endSignal(*os.ProcessState) string { return "" }
