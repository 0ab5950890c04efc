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
	if lifelineEnded() {
		endGroup()
	}
	go func() {
		var one [1]byte
		for {
			if _, err := line.Read(one[:]); err != nil {
				endGroup()
			}
		}
	}()
	return nil
}

// lifelineEnded reports whether the parent's end is closed. It never waits, and
// asks by poll(2): O_NONBLOCK belongs to the open file, which the parent holds
// too and may change at any moment, so a read could wait for ever.
func lifelineEnded() bool {
	ask := []unix.PollFd{{Fd: wire.LifelineFD, Events: unix.POLLIN}}
	_, err := unix.Poll(ask, 0)
	return err == nil && ask[0].Revents&unix.POLLHUP != 0
}

// endGroup kills this process and what it has started. A process that does not
// lead its group kills only itself.
func endGroup() {
	if pid := unix.Getpid(); unix.Getpgrp() == pid {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
}
