package testkit

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// leakWait is how long a leftover may take to go, after the test has ended.
const leakWait = 5 * time.Second

// Leaks fails the test when, after it and the cleanups registered later, this
// process has child processes (unreaped ones too), open descriptors or mapped
// memory files that it did not have before. Tests that run in parallel in one
// process see one another's. It looks through /proc; elsewhere than on Linux
// it sees nothing.
func Leaks(t testing.TB) {
	t.Helper()
	before := holdings()
	t.Cleanup(func() {
		deadline := time.Now().Add(leakWait)
		for {
			left := newIn(holdings(), before)
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("left behind:\n  %s", strings.Join(left, "\n  "))
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func newIn(now, before map[string]int) []string {
	var left []string
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if now[what] > before[what] {
			left = append(left, what)
		}
	}
	return left
}

// holdings counts what the process holds, by a description.
func holdings() map[string]int {
	held := map[string]int{}
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		children, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		for _, pid := range strings.Fields(string(children)) {
			held["child process "+pid+" "+comm(pid)]++
		}
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || ofRuntime(target) {
			continue // the descriptor that read the folder, or no concern of the test
		}
		held["descriptor of "+target]++
	}
	mapped, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(mapped)) {
		if at := strings.Index(line, "/memfd:"); at >= 0 {
			held["mapping of "+strings.TrimSpace(line[at:])]++
		}
	}
	return held
}

// ofRuntime reports whether a descriptor is one that the Go runtime opens at
// its first need and keeps.
func ofRuntime(target string) bool {
	return target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]"
}

func comm(pid string) string {
	name, _ := os.ReadFile("/proc/" + pid + "/comm")
	return strings.TrimSpace(string(name))
}
