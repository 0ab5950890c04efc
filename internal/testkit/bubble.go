package testkit

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Bubble is synctest.Test, on one processor where the race detector watches.
//
// Go's runtime gives all timers of a bubble one race context. Two threads that
// fire timers of one bubble at once (a heap timer and one whose channel is
// being received from) corrupt it, and the detector dies with a segmentation
// fault or a failed check of its own: golang.org/issue/78156, seen here with
// Go 1.26. With one processor timers never fire at once, and the detector
// still finds races, for it looks at what happens before what.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if raceEnabled {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	synctest.Test(t, f)
}
