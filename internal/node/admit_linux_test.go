package node

import (
	"syscall"
	"testing"

	"muster/internal/testkit"
	"muster/internal/wire/controlpb"
)

// A worker that dies, and one that stands still, in the middle of its forward.
func TestAForwardThatDoesNotEndIsNeverRegistered(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, sig := range map[string]syscall.Signal{"it dies": syscall.SIGKILL, "it stands still": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			n := o.run(o.realConfig())
			n.available(1)
			hit := make(chan struct{})
			o.mu.Lock()
			o.onReport = func(m *controlpb.Report) {
				if p := m.GetStageProgress(); p.GetPhase() == "admitting" && p.GetDetail() != "" {
					o.onReport = nil
					if err := syscall.Kill(n.worker(), sig); err != nil {
						t.Error(err)
					}
					close(hit)
				}
			}
			o.mu.Unlock()
			r := o.begun(n)
			<-hit
			o.until("a fault", func() bool { return o.reported(n.id, r.isFaulted) > 0 })
			o.heardOfNone(r)
			r.end()
			if err := n.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
