//go:build unix

package doctor

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit"
)

// A worker that dies in the forward, also as the kernel ends one for want of
// memory at full context, or that hangs, fails with its cause.
func TestAWorkerLostInTheForwardIsCaught(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, c := range map[string]struct {
		part        string
		signal      syscall.Signal
		want, cause fault.Code
	}{
		"dies in its long text":      {"long text", syscall.SIGSEGV, fault.DoctorWorkerLost, fault.WorkerKilled},
		"ended for want of memory":   {"full context", syscall.SIGKILL, fault.DoctorWorkerLost, fault.WorkerKilled},
		"hangs in its single tokens": {"token by token, and rolled back", syscall.SIGSTOP, fault.DoctorStepOverdue, fault.WorkerStopped},
	} {
		t.Run(name, func(t *testing.T) {
			if c.signal == syscall.SIGSTOP {
				testkit.Need(t, testkit.Linux) // where a stopped worker is told from a slow one
			}
			m, layers := tale(t), gguf.Range{Start: 3, End: 6}
			r := m.load(layers, served)
			e := m.exam(layers, served, r)
			e.Patience = 10 * time.Second // longer than the worker's own watch takes
			e.Tell = func(part string) {
				if part == c.part {
					must(t, syscall.Kill(r.PID(), c.signal))
				}
			}
			f := examined(t, r, e)
			why := f.Failed()
			if why == nil || why.Code != c.want || !errors.Is(why, c.cause) || len(why.Hint()) == 0 {
				t.Errorf("it failed by %v, want %s because of %s", why, c.want, c.cause)
			}
			if len(f.Checks) == 0 {
				t.Error("what was found before is lost")
			}
		})
	}
}
