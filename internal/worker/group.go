package worker

import (
	"os"
	"sync"
	"syscall"
)

// group is the child's process group, which the child leads. Signals go to all
// of it. Once the leader has been reaped its number may be another's, so no
// signal is sent after that.
type group struct {
	pid int // written by the keeper before anybody else sees the Worker

	mu     sync.Mutex
	reaped bool
}

// kill ends the whole group at once, stopped processes too.
func (g *group) kill() { g.signal(syscall.SIGKILL) }

func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		signalGroup(g.pid, sig)
	}
}

// resume lets a stopped group go on, so that it can act on TERM.
func (g *group) resume() { g.signal(contSignal) }

// reap waits for the leader's end and kills what is left of its group while
// the dead leader still keeps the number taken.
func (g *group) reap(proc *os.Process) (*os.ProcessState, error) {
	awaitEnd(proc)
	g.mu.Lock()
	defer g.mu.Unlock()
	signalGroup(g.pid, syscall.SIGKILL)
	state, err := proc.Wait()
	g.reaped = true
	return state, err
}

// stoppedBy names the signal that has stopped the leader, "" while it runs.
func (g *group) stoppedBy() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reaped {
		return ""
	}
	return stopSignal(g.pid)
}
