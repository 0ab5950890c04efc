package child

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// deadly are the signals by which a crash in a foreign library shows.
var deadly = []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT}

// sigaction is the kernel's struct, not libc's. All zero means: default action,
// no flags, empty mask, on every architecture.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// dieOfSignals gives the deadly signals their default action behind the
// runtime's back. A nil dereference in Go code then ends the process too, in
// place of a panic: a worker recovers from none. The runtime's other signals,
// with SIGURG for preemption among them, stay as they are.
//
// The default action writes a core file, which takes long and fills disks; a
// limit of one byte refuses it both as a file and through a pipe (core(5)).
func dieOfSignals() {
	var byDefault sigaction
	for _, sig := range deadly {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, unsafe.Sizeof(byDefault.mask), 0, 0)
	}
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		core.Cur = min(1, core.Max)
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core)
	}
}

// dieWithParent asks for SIGKILL at the parent's death. The parent has asked
// for it already; the kernel forgets that when the program file carries
// capabilities.
func dieWithParent() {
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}
