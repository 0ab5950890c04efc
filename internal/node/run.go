package node

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/fault"
	"muster/internal/id"
)

// node is one life of the process. Fields below the line are the mailbox's
// alone.
type node struct {
	cfg    Config
	bootID id.BootID
	began  time.Time

	box     chan message
	ended   chan struct{} // the mailbox takes nothing any more
	tasks   sync.WaitGroup
	ctx     context.Context // ends when the node has left
	end     context.CancelFunc
	report  *reporter
	network atomic.Pointer[network] // nil until an endpoint is open
	trial   trial
	reports atomic.Uint64 // of capability, so far

	// ————
	boot     boot.State
	stage    stage.State
	attempt  *attempt        // what the boot core has proven with; nil when freed
	freeing  bool            // the attempt is being freed
	unfreed  bool            // Release was asked for; it waits for the stage
	netLost  bool            // the network is to be freed too
	work     *work           // of the latest order; nil when torn down
	asks     map[uint64]*ask // provisions that wait for the stage core
	next     *ask            // accepted; its work is made when the core says so
	offer    offering
	asked    uint64        // the latest
	said     announced     // when it last became available
	retry    time.Duration // the latest pause between attempts
	retryAt  time.Duration // 0: no attempt is to come
	bootWake time.Duration // 0: none
	workWake time.Duration // 0: none
	without  time.Duration // instant since which the node is not available
	leaveBy  time.Duration // 0: nobody has asked
	verdict  *fault.Fault  // what ends the process
}

// Run proves the node, serves its orchestrator and returns when nothing of it
// is left: nil when ctx has ended or the orchestrator told it to leave, else
// the fault that ended it. Faults: node.config_invalid; identity.*, pool.* and
// others that say that this id can never be accepted; with GiveUp or Once whatever kept
// the node from being available; node.close_overdue.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.checked()
	if err != nil {
		return err
	}
	bootID, err := id.NewBootID(rand.Reader)
	if err != nil {
		return fault.New(fault.InternalUnexpected, component).Because(err)
	}
	leave, err := cfg.takeFolder()
	if err != nil {
		return err
	}
	defer leave()
	ended := cfg.keep()
	err = newNode(cfg, bootID).live(ctx)
	ended(err)
	return err
}

func newNode(cfg Config, bootID id.BootID) *node {
	life, end := context.WithCancel(context.Background())
	n := &node{
		cfg: cfg, bootID: bootID, began: time.Now(), ctx: life, end: end,
		box: make(chan message, 64), ended: make(chan struct{}),
		boot:  boot.New(cfg.Within),
		stage: stage.New(cfg.Phases, bootID),
		asks:  map[uint64]*ask{},
	}
	n.report = newReporter(n)
	return n
}

// live is the life of the node; nothing of it is left when it returns.
func (n *node) live(ctx context.Context) error {
	n.tasks.Go(n.report.run)
	err := n.serve(ctx)
	close(n.ended)
	n.farewell()
	n.end()
	n.tasks.Wait()
	n.trial.close()
	return err
}

// now is the instant by which the cores live.
func (n *node) now() time.Duration { return time.Since(n.began) }

// tell hands the mailbox a message; one that comes after its end is dropped.
func (n *node) tell(m message) {
	select {
	case n.box <- m:
	case <-n.ended:
	}
}

// farewell tells the orchestrator and the other members that the node goes, and
// frees the network.
func (n *node) farewell() {
	n.report.drain(farewellWithin)
	if net := n.network.Swap(nil); net != nil {
		net.leave()
		net.close()
	}
}

const farewellWithin = 2 * time.Second
