package worker

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes give the child a group of its own, within the daemon's session:
// with autogroup on, nice weighs only inside one session.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// beforeStart readies the calling thread and the lifeline. A process started
// from a nicer thread begins with that priority, all its threads with it.
func beforeStart(lifeline *os.File, nice int) {
	// The system call gives 20 - nice, so that it is never negative.
	if prio, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-prio+nice)
	}
	armLifeline(lifeline)
}

func onFirstThread() bool { return unix.Gettid() == unix.Getpid() }

// afterStart does what needs the child's number.
func afterStart(lifeline *os.File, pid, _ int) { tieLifeline(lifeline, pid) }

// awaitEnd returns when the process has ended and leaves it unreaped.
func awaitEnd(proc *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// stopSignal names the signal by which the child is stopped, "" where it is
// not. The status stays unread, so that it can be asked again.
func stopSignal(pid int) string {
	var info unix.Siginfo
	if unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil) != nil || info.Signo == 0 {
		return ""
	}
	return signalName(syscall.Signal((*stopInfo)(unsafe.Pointer(&info)).status))
}

// stopInfo is siginfo_t as waitid fills it on 64-bit Linux (sigaction(2)).
type stopInfo struct {
	_      [4]int32 // signo, errno, code and padding
	_, _   int32    // pid, uid
	status int32
}
