package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is a clock that counts suspend, from an instant of its own: it is
// compared with itself only, on one machine.
func Boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(t.Nano())
}

var processStart = time.Now()
