package endpoint_test

import "syscall"

const (
	stopSignal     = syscall.SIGKILL
	continueSignal = syscall.SIGKILL
)
