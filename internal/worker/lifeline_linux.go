package worker

import (
	"os"

	"golang.org/x/sys/unix"
)

// The lifeline is a pipe of which the daemon holds the only writing end. The
// kernel itself watches it: asynchronous notification (F_SETOWN, F_SETSIG,
// O_ASYNC of fcntl(2)) is bound to the reading end's open file, which child and
// descendants share. When the writing end closes, by whatever death of the
// daemon, every process of the owning group gets SIGKILL, and a stopped one
// dies of that too. The parent-death signal reaches the child alone, so this is
// what takes along what the child has started.

// armLifeline turns the notification on while nobody is told yet. It comes
// before the start, so that the child's own changes of the flags cannot race
// with it.
func armLifeline(reading *os.File) {
	control(reading, func(fd uintptr) {
		_, _ = unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGKILL))
		if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_ASYNC)
		}
	})
}

// tieLifeline names the group to be told.
func tieLifeline(reading *os.File, group int) {
	control(reading, func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETOWN, -group) })
}

// control lends f's descriptor. File.Fd would make the open file blocking,
// under the hands of the child, which has it too.
func control(f *os.File, do func(fd uintptr)) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(do)
	}
}
