//go:build unix

package main

import (
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"muster/internal/orch"
)

// blow is what befalls the node of a stage in the middle of an answer.
type blow struct {
	stage  int
	strike func(p *pool, victim string)
	exit   int
	codes  []string // one of them ends the answer
	words  []string // after the node's name
	// after comes when the answer has ended, and lets the victim serve again;
	// nil where it does by itself.
	after   func(p *pool, victim string, worker int)
	another bool // the victim comes back as another boot
}

// survives strikes and demands of the pool: the answer ends by its fault, the
// next run is served by the same boots of the nodes that were not struck, and
// every process holds what it held before.
func (p *pool) survives(b blow) {
	p.t.Helper()
	a := p.ask()
	before := p.serving()
	victim := before.Run.Stages[b.stage].Name
	worker, holds, files := p.worker(victim), p.holds(), p.files()
	b.strike(p, victim)
	a.faults(b.exit, b.codes, append([]string{"muster: " + victim + ": "}, b.words...)...)
	if b.after != nil {
		b.after(p, victim, worker)
	}
	after := p.servingAfter(before.Run.Run)
	another := ""
	if b.another {
		another = victim
	}
	sameBoots(p.t, before, after, another)
	if after.Boot != before.Boot {
		p.t.Error("the orchestrator was started anew")
	}
	p.answers()
	p.gone(worker)
	p.kept(files)
	p.holding(holds)
}

// sameBoots demands that no node was started anew but the one that is named.
func sameBoots(t *testing.T, before, after orch.Status, another string) {
	t.Helper()
	for i, was := range before.Nodes {
		now := after.Nodes[i]
		if (now.Boot != was.Boot) != (now.Name == another) {
			t.Errorf("%s has boot %s, before %s", now.Name, now.Boot, was.Boot)
		}
	}
}

// kept demands that there are the files that there were. The digests of a model
// that was just written are kept from the orchestrator's second start on.
func (p *pool) kept(files []string) {
	p.t.Helper()
	now := p.files()
	isIn := func(all []string) func(string) bool {
		return func(name string) bool {
			return slices.Contains(all, name) || slices.Contains([]string{"manifests", "reports"}, filepath.Base(filepath.Dir(name)))
		}
	}
	more, less := slices.DeleteFunc(slices.Clone(now), isIn(files)), slices.DeleteFunc(files, isIn(now))
	if len(more)+len(less) > 0 {
		p.t.Errorf("files have come %q and gone %q", more, less)
	}
}

// gone demands that processes end soon.
func (p *pool) gone(pids ...int) {
	p.t.Helper()
	for deadline := time.Now().Add(goneWithin); !allGone(pids); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("of the processes %v some are still there", pids)
		}
	}
}

func allGone(pids []int) bool {
	return !slices.ContainsFunc(pids, func(pid int) bool { return !gone(pid) })
}

// holds is what the processes of the pool have: of the orchestrator, and of
// each node.
func (p *pool) holds() map[string]held {
	p.t.Helper()
	all := map[string]held{"orchestrator": heldBy(p.t, p.server.Process.Pid)}
	for name := range p.nodes {
		all[name] = heldBy(p.t, p.pid(name))
	}
	return all
}

// holding demands that each process comes to have the children and the memory
// files that it had, and no more descriptors than a few beyond.
func (p *pool) holding(want map[string]held) {
	p.t.Helper()
	var now map[string]held
	for deadline := time.Now().Add(poolWithin); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if now = p.holds(); maps.EqualFunc(now, want, held.within) {
			return
		}
	}
	p.t.Errorf("held before %+v, now %+v", want, now)
}

func (p *pool) restart(victim string, worker int) {
	p.gone(worker)
	p.start(victim)
}

func TestAKilledNodeEndsTheRunByName(t *testing.T) {
	p := newPool(t, 3, "--model", endless(t))
	for stage := range 3 {
		p.survives(blow{
			stage: stage, strike: (*pool).kill, after: (*pool).restart, another: true,
			exit: 7, codes: []string{"node.suspected", "node.died"}, words: []string{": gate: "},
		})
	}
}

func TestAKilledWorkerEndsTheRunByName(t *testing.T) {
	p := newPool(t, 3, "--model", endless(t))
	for stage := range 3 {
		p.survives(blow{
			stage: stage, strike: func(p *pool, victim string) { p.signal(p.worker(victim), syscall.SIGKILL) },
			exit: 7, codes: []string{"worker.killed"}, words: []string{": worker: ", "SIGKILL"},
		})
	}
}

// A node that is stopped by a signal keeps its worker, and both go on. Where it
// is killed in the end, its worker goes with it.
func TestAStoppedNodeEndsTheRunByName(t *testing.T) {
	p := newPool(t, 3, "--model", endless(t))
	stopped := blow{
		strike: func(p *pool, victim string) { p.signal(p.pid(victim), syscall.SIGSTOP) },
		exit:   7, codes: []string{"node.suspected", "node.died"}, words: []string{": gate: "},
		after: func(p *pool, victim string, _ int) { p.signal(p.pid(victim), syscall.SIGCONT) },
	}
	for stage := range 2 {
		stopped.stage = stage
		p.survives(stopped)
	}
	stopped.stage, stopped.another = 2, true
	stopped.after = func(p *pool, victim string, worker int) {
		p.kill(victim)
		p.restart(victim, worker)
	}
	p.survives(stopped)
}

func TestAStoppedWorkerEndsTheRunByName(t *testing.T) {
	p := newPool(t, 3, "--model", endless(t))
	for stage := range 3 {
		p.survives(blow{
			stage: stage, strike: func(p *pool, victim string) { p.signal(p.worker(victim), syscall.SIGSTOP) },
			exit: 8, codes: []string{"worker.stopped"}, words: []string{": worker: ", "SIGSTOP"},
		})
	}
}

// An orchestrator that is killed takes the run with it and no node: each frees
// its stage, and serves again when it is there again.
func TestAKilledOrchestratorEndsTheRunAndNoNode(t *testing.T) {
	p := newPool(t, 3, "--model", endless(t))
	a := p.ask()
	before := p.serving()
	tokenizers := children(t, p.server.Process.Pid)
	workers := map[string]int{}
	for name := range p.nodes {
		workers[name] = p.worker(name)
	}
	holds, files := p.holds(), p.files()
	p.end(p.server)
	a.faults(7, []string{"gateway.orchestrator_lost"}, "orchestrator")
	p.gone(append(slices.Collect(maps.Values(workers)), tokenizers...)...)
	for name := range p.nodes {
		if gone(p.pid(name)) {
			t.Errorf("%s has ended", name)
		}
	}
	p.startServer()
	after := p.serving()
	sameBoots(t, before, after, "")
	if after.Run.Run == before.Run.Run {
		t.Error("the run was gone on with: it must be another")
	}
	p.answers()
	p.holding(holds)
	p.kept(files)
}
