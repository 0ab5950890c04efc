package worker

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes give the child a group of its own. Its parent's death is told by
// the lifeline alone, which the child watches.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// beforeStart does nothing: a pipe cannot signal its readers here, and the
// priority belongs to a whole process.
func beforeStart(*os.File, int) {}

// onFirstThread does not matter: no thread is changed here.
func onFirstThread() bool { return false }

// afterStart lowers the child's priority.
func afterStart(_ *os.File, pid, nice int) {
	if prio, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil && nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, prio+nice)
	}
}

// awaitEnd returns when the process has ended and leaves it unreaped.
func awaitEnd(proc *os.Process) {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(kq) }()
	watch := make([]unix.Kevent_t, 1)
	unix.SetKevent(&watch[0], proc.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch[0].Fflags = unix.NOTE_EXIT
	for {
		_, err := unix.Kevent(kq, watch, make([]unix.Kevent_t, 1), nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// stopSignal cannot be asked here without reaping the process.
func stopSignal(int) string { return "" }
