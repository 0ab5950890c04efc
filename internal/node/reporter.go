package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Bounds of the reporter.
const (
	mostReports  = 512             // waiting
	reportWithin = 2 * time.Second // one call
	firstAgain   = 50 * time.Millisecond
	mostAgain    = time.Second
	leastSilence = 5 * time.Second // without an answer, before the orchestrator counts as lost
)

// reporter tells the orchestrator what happened, one report after the other,
// each until it is taken.
//
//	push ──► queue ──► call ──taken──► the next
//	                    └──fails──► again, after a pause; the orchestrator is lost
//	                                where it is silent for too long or will not
//	                                take reports of this boot
//
// What an orchestrator was not told before another took its place is dropped.
type reporter struct {
	n *node

	mu       sync.Mutex
	queue    []*controlpb.Report
	peer     id.BootID     // of the orchestrator; none before it has answered a hello
	sequence uint64        // of the latest report sent
	changed  chan struct{} // holds one token when there is something to look at
	idle     chan struct{} // closed when the queue is empty
}

func newReporter(n *node) *reporter {
	r := &reporter{n: n, changed: make(chan struct{}, 1), idle: make(chan struct{})}
	close(r.idle)
	return r
}

// push queues a report. Progress is dropped where many wait.
func (r *reporter) push(m *controlpb.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := mostReports
	if m.GetStageProgress() != nil {
		limit /= 4
	}
	if len(r.queue) >= limit {
		return
	}
	if len(r.queue) == 0 {
		r.idle = make(chan struct{})
	}
	r.queue = append(r.queue, m)
	r.wake()
}

// connect says which orchestrator is told from now on.
func (r *reporter) connect(boot id.BootID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peer != boot {
		r.peer = boot
		r.clear()
	}
	r.wake()
}

// clear drops what waits. The oldest may be on its way: its number is used up.
func (r *reporter) clear() {
	if len(r.queue) > 0 {
		r.queue = nil
		r.sequence++
		close(r.idle)
	}
}

func (r *reporter) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// drain waits until all is told, at most so long; what is left is dropped.
func (r *reporter) drain(within time.Duration) {
	r.mu.Lock()
	idle, known := r.idle, !r.peer.IsZero()
	r.mu.Unlock()
	if known {
		select {
		case <-idle:
			return
		case <-time.After(within):
		}
	}
	r.mu.Lock()
	r.clear()
	r.mu.Unlock()
}

// next is the oldest report and its number, nil where there is none to send.
func (r *reporter) next() (*controlpb.Report, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.peer.IsZero() {
		return nil, 0
	}
	return r.queue[0], r.sequence + 1
}

// taken takes the oldest report off, if it still is that one.
func (r *reporter) taken(m *controlpb.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.queue[0] != m {
		return
	}
	r.sequence++
	if r.queue = r.queue[1:]; len(r.queue) == 0 {
		close(r.idle)
	}
}

func (r *reporter) run() {
	for {
		select {
		case <-r.n.ctx.Done():
			return
		case <-r.changed:
		}
		for m, sequence := r.next(); m != nil; m, sequence = r.next() {
			if !r.send(m, sequence) {
				break
			}
		}
	}
}

// send tells one report until it is taken. It is false when the orchestrator is
// lost or the node ends.
func (r *reporter) send(m *controlpb.Report, sequence uint64) bool {
	began := time.Now()
	for pause := firstAgain; ; pause = min(2*pause, mostAgain) {
		err := r.call(m, sequence)
		if err == nil {
			r.taken(m)
			return true
		}
		if again, _ := r.next(); again != m {
			return true // it was dropped meanwhile
		}
		why := fault.From(err)
		if !transport(why) && why.Code.Entry().Retry == fault.Never {
			r.giveUp("it does not take reports of this boot: " + why.Error())
			return false
		}
		if silent := time.Since(began); silent > leastSilence {
			r.giveUp(fmt.Sprintf("it has taken no report for %.1f s: %s", silent.Seconds(), why))
			return false
		}
		select {
		case <-r.n.ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

func (r *reporter) call(m *controlpb.Report, sequence uint64) error {
	net := r.n.network.Load()
	if net == nil {
		return fault.New(fault.EndpointSocketClosed, component)
	}
	ctx, cancel := context.WithTimeout(r.n.ctx, reportWithin)
	defer cancel()
	_, err := net.caller.Call(ctx, r.n.cfg.Orchestrator, &controlpb.Request{Body: &controlpb.Request_Report{Report: &controlpb.Report{
		BootId: controlpb.ID(r.n.bootID), Sequence: sequence, Event: m.GetEvent(),
	}}})
	return err
}

// giveUp drops what was to be told: whoever takes this orchestrator's place is
// told anew.
func (r *reporter) giveUp(what string) {
	r.mu.Lock()
	r.peer = id.BootID{}
	r.clear()
	r.mu.Unlock()
	r.n.orchestratorLost(what)
}
