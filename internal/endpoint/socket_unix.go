//go:build unix

package endpoint

import "syscall"

const addressInUse = syscall.EADDRINUSE

func bufferOf(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
}
