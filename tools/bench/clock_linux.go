package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the clock by which the kernel notes the start of a process.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
