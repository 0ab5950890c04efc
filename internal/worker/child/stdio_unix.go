//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
)

// takeStdio moves the protocol to descriptors of its own, closed in whatever
// the process may start, and leaves /dev/null as stdin and stderr as stdout to
// everybody else.
func takeStdio() (in, out *os.File, err error) {
	if in, err = private(0, "requests"); err != nil {
		return nil, nil, err
	}
	if out, err = private(1, "replies"); err != nil {
		return nil, nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fault.New(fault.WorkerSpawnFailed, component).Because(err)
	}
	defer func() { _ = unix.Close(null) }()
	if err := replace(null, 0); err != nil {
		return nil, nil, fault.New(fault.WorkerSpawnFailed, component).Because(err)
	}
	if err := replace(2, 1); err != nil {
		return nil, nil, fault.New(fault.WorkerSpawnFailed, component).Because(err)
	}
	return in, out, nil
}

func private(fd int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fault.New(fault.WorkerSpawnFailed, component).Because(err)
	}
	return Descriptor(own, name)
}

// Descriptor takes over a descriptor that the daemon passed. It is closed in
// programs that the process starts; a pipe is read and written through the
// runtime's poller, so that deadlines hold. Fault: worker.protocol_broken where
// the descriptor is not open.
func Descriptor(fd int, name string) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fault.New(fault.WorkerProtocolBroken, component, "what", name+" was not passed").Because(err)
	}
	unix.CloseOnExec(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFIFO {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fault.New(fault.WorkerProtocolBroken, component, "what", name+" cannot be polled").Because(err)
		}
	}
	return os.NewFile(uintptr(fd), name), nil
}
