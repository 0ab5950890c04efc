package local

import "syscall"

// attributes give the node a group of its own, so that an interrupt from the
// terminal reaches this process alone, and have it die with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
