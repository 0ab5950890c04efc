//go:build unix

package child

import (
	"os"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
	"muster/internal/wire"
)

// watchLifeline ties the process to its parent. The lifeline is asked once
// after the parent-death signal has been set: a parent that went before is
// seen by the pipe's end, wherever the orphan was hung.
//
// The descriptor stays open across exec on purpose: as long as a descendant
// holds it, the kernel signals the group when the parent goes (see package
// worker, lifeline_linux.go).
func watchLifeline() error {
	var st unix.Stat_t
	if err := unix.Fstat(wire.LifelineFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return fault.New(fault.WorkerProtocolBroken, component, "what",
			"descriptor 3 is no lifeline: muster starts this program by itself")
	}
	dieWithParent()
	if err := unix.SetNonblock(wire.LifelineFD, true); err != nil {
		return fault.New(fault.WorkerSpawnFailed, component).Because(err)
	}
	line := os.NewFile(wire.LifelineFD, "lifeline")
	var one [1]byte
	if n, err := unix.Read(wire.LifelineFD, one[:]); n == 0 && err == nil {
		endGroup()
	}
	go func() {
		for {
			if _, err := line.Read(one[:]); err != nil {
				endGroup()
			}
		}
	}()
	return nil
}

// endGroup kills this process and what it has started. A process that does not
// lead its group kills only itself.
func endGroup() {
	if pid := unix.Getpid(); unix.Getpgrp() == pid {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
}
