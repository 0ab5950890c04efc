package endpoint

import "syscall"

// addressInUse is WSAEADDRINUSE, which the syscall package does not name.
const addressInUse = syscall.Errno(10048)

// bufferOf cannot ask: Windows grows the buffers by itself.
func bufferOf(uintptr) (int, error) { return wantedBuffer, nil }
