package node

import (
	"sync"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/process"
)

// keeper keeps the node's status in its folder. What comes while it writes is
// written next. The folder's lock keeps it this node's.
//
//	mailbox ── put ──► latest ──► run ──► DATA/status.json
type keeper struct {
	dir  string
	tell func(event.Event)

	mu      sync.Mutex
	local   Local // latest
	changed chan struct{}

	// Of the goroutine of run, and of end after it.
	mute  bool // a failure has been told
	tasks sync.WaitGroup
	done  chan struct{}
}

// writeEvery bounds how often the file is written: a stage that loads tells of
// itself many times a second.
const writeEvery = 100 * time.Millisecond

// keep has every status of a node kept in its folder, where it has one. What it
// returns is called once the node has ended.
func (c *Config) keep() (end func(error)) {
	if c.DataDir == "" {
		return func(error) {}
	}
	k := &keeper{
		dir: c.DataDir, tell: c.Tell, changed: make(chan struct{}, 1), done: make(chan struct{}),
		local: Local{
			Version: c.Version, Process: process.Self(), Orchestrator: c.Orchestrator.String() + "@" + c.OrchestratorAddr,
			Pool: c.Pool, Deferred: c.DeferWorker,
		},
	}
	told := c.Status
	c.Status = func(s Status) {
		told(s)
		k.put(s)
	}
	k.tasks.Go(k.run)
	return k.end
}

// put takes the latest status. It does not wait.
func (k *keeper) put(s Status) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.Node.IsZero() {
		s.Node = k.local.Status.Node // its network is closed; it is still the same
	}
	k.local.Told, k.local.Status = time.Now(), s
	if s.Fault != nil && (k.local.Loss == nil || k.local.Loss.Attempt != s.Attempt || k.local.Loss.Fault != s.Fault) {
		k.local.Loss = &Loss{Attempt: s.Attempt, At: k.local.Told, Fault: s.Fault}
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) run() {
	for {
		select {
		case <-k.changed:
		case <-k.done:
			return
		}
		k.write()
		select {
		case <-time.After(writeEvery):
		case <-k.done:
			return
		}
	}
}

// end writes how the node has ended.
func (k *keeper) end(err error) {
	close(k.done)
	k.tasks.Wait()
	k.mu.Lock()
	k.local.Told, k.local.Ended = time.Now(), &Ended{Fault: fault.From(err)}
	k.mu.Unlock()
	k.write()
}

func (k *keeper) write() {
	k.mu.Lock()
	l := k.local
	k.mu.Unlock()
	err := l.write(k.dir)
	if err != nil && !k.mute {
		k.tell(event.NodeStatusUnwritten{Boot: l.Status.Boot, Fault: fault.From(err)})
	}
	k.mute = err != nil
}
