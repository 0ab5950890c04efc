//go:build unix

package arena

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
)

func supported() error { return nil }

// mapFile maps the whole file, shared with whoever else maps it.
func mapFile(f *os.File, size int64) ([]byte, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fault.New(fault.ArenaMapRefused, component).Because(err)
	}
	if size != int64(int(size)) {
		return nil, fault.New(fault.ArenaMapRefused, component).Because(syscall.EOVERFLOW)
	}
	var memory []byte
	var inner error
	err = raw.Control(func(fd uintptr) {
		memory, inner = unix.Mmap(int(fd), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, fault.New(fault.ArenaMapRefused, component, "size", size).Because(err)
	}
	return memory, nil
}

func unmapMemory(memory []byte) error { return unix.Munmap(memory) }

func setNonblock(fd uintptr) error { return syscall.SetNonblock(int(fd), true) }

// ringOnce writes one byte and reports whether somebody may read it. A pipe
// that is full has been rung enough.
func ringOnce(fd uintptr) bool {
	for {
		_, err := syscall.Write(int(fd), []byte{1})
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil, errors.Is(err, syscall.EAGAIN):
			return true
		}
		return false
	}
}

// sizeRefused is the fault of a file that cannot have its size.
func sizeRefused(size int64, err error) error {
	code := fault.ArenaCreateRefused
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EDQUOT) {
		code = fault.ArenaSpaceShort
	}
	return fault.New(code, component, "need", fmt.Sprintf("%d bytes", size)).Because(err)
}
