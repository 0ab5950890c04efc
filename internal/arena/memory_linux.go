package arena

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
)

// fileName is what the memory file is called under /proc/PID/fd.
const fileName = "muster-arena"

// createFile makes a memory file of the size. Its seals forbid everybody to
// change the size, since a file that shrinks under its map kills whoever
// touches it.
func createFile(size int64) (*os.File, error) {
	fd, err := memfd()
	if err != nil {
		return nil, fault.New(fault.ArenaCreateRefused, component).Because(os.NewSyscallError("memfd_create", err))
	}
	f := os.NewFile(uintptr(fd), "memfd:"+fileName)
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, sizeRefused(size, os.NewSyscallError("ftruncate", err))
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, fault.New(fault.ArenaCreateRefused, component).Because(os.NewSyscallError("fcntl", err))
	}
	return f, nil
}

// memfd asks for a file that can never be executed, which hardened kernels
// insist on and those before 6.3 do not know.
func memfd() (int, error) {
	fd, err := unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	return fd, err
}

// reserve takes memory for a range now, so that a later touch cannot fail.
func reserve(f *os.File, offset, length int64) error {
	var err error
	for {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, length)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return sizeRefused(length, os.NewSyscallError("fallocate", err))
	}
	return nil
}

// giveBack frees the memory of a range, which reads as zeros from then on. Where
// the kernel will not, the memory stays reserved for the next lease.
func giveBack(f *os.File, offset, length int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
}
