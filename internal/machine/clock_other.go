//go:build !linux

package machine

import "time"

// Boottime is the monotonic clock, which does not count suspend on every
// system; it is compared with itself only.
func Boottime() time.Duration { return time.Since(processStart) }

var processStart = time.Now()
