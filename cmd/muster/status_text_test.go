package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/id"
	"muster/internal/node"
	"muster/internal/orch"
	"muster/internal/process"
)

var rewrite = flag.Bool("rewrite", false, "write the texts in testdata anew")

// looksLike compares a text with the one in a folder of testdata.
func looksLike(t *testing.T, folder, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", folder, name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it reads\n%s\nand not\n%s", got, want)
	}
}

var (
	aNode = func(n int) id.NodeID { return id.NodeID{byte(40 * n), 3, 7, 9, 11, 31: 1} }
	aRun  = id.RunID{0x01, 0x99, 0x55, 15: 1}
	boot1 = id.BootID{0xab, 15: 1}
)

// wellNode is a node that nothing is wrong with.
func wellNode(n int, name string) orch.NodeStatus {
	return orch.NodeStatus{
		Node: aNode(n), Name: name, Boot: boot1, Swim: "alive", Phase: "available", Available: true,
		MemoryAvailable: 3 << 30, MemoryTotal: 8 << 30, Devices: []string{"CPU of 2 cores"}, Answered: 140 * time.Millisecond,
		Facts: []orch.FactStatus{{Name: "identity", State: "proven", Since: 9 * time.Second}},
	}
}

func aStatus(phase string, nodes ...orch.NodeStatus) orch.Status {
	return orch.Status{
		Orchestrator: aNode(0), Boot: boot1, Address: "10.0.0.9:6878", Up: 75 * time.Second,
		Pool:  orch.PoolStatus{Name: "lab", Epoch: 3, Phase: phase, Window: 6800 * time.Millisecond},
		Model: orch.ModelStatus{Name: "tale", Architecture: "llama", Layers: 8, Bytes: 1 << 21, Published: true},
		Nodes: nodes,
	}
}

func inTheWay(s *orch.Status, n id.NodeID, what, do string) {
	s.Pool.Blockers = append(s.Pool.Blockers, orch.Blocker{Node: n, Name: n.Short(), What: what, Do: do})
}

func TestTheStatusOfAPoolReadsAtAGlance(t *testing.T) {
	stages := []orch.StageStatus{
		{Node: aNode(1), Name: "left", Layers: [2]int{0, 4}, Progress: "ready", ResidentBytes: 9 << 20, TokenMicros: 410},
		{Node: aNode(2), Name: "right", Layers: [2]int{4, 8}, Progress: "accepted", Phase: "loading", Done: 3, Total: 8},
	}
	for name, of := range map[string]func() orch.Status{
		"empty": func() orch.Status {
			s := aStatus("waiting")
			inTheWay(&s, id.NodeID{}, "the pool has no nodes", "add some with `muster pool add`")
			return s
		},
		"waiting": func() orch.Status {
			suspect, unseen := wellNode(3, ""), orch.NodeStatus{Node: aNode(4), Name: "back", Answered: -1, Swim: "unknown"}
			suspect.Swim, suspect.Answered = "suspect", 1100*time.Millisecond
			s := aStatus("waiting", wellNode(1, "left"), wellNode(2, "right"), suspect, unseen)
			inTheWay(&s, aNode(3), "suspect for 0.8 s, last answer 1.1 s ago", "see whether its machine and its link are well")
			inTheWay(&s, aNode(4), "not heard of yet", "start `muster node` there with this orchestrator's id and address, or remove it from the pool")
			return s
		},
		"faulted": func() orch.Status {
			why := fault.New(fault.WorkerBinaryMissing, "worker", "path", "/opt/muster-worker")
			bad := wellNode(2, "right")
			bad.Phase, bad.Available, bad.Fault = "faulted", false, why
			bad.Facts = append(bad.Facts, orch.FactStatus{Name: "worker", State: "failed", Since: 2300 * time.Millisecond, Fault: why},
				orch.FactStatus{Name: "control", State: "pending", Since: 2400 * time.Millisecond})
			s := aStatus("waiting", wellNode(1, "left"), bad)
			inTheWay(&s, aNode(2), "faulted: "+why.Error(), why.Hint())
			return s
		},
		"unfit": func() orch.Status {
			why := fault.New(fault.DoctorCheckFailed, "worker", "layers", "4:8", "check", "cosine", "got", 0.91, "limit", 0.999,
				"what", "cosine to the reference 0.91, at least 0.999", "want", "test the memory of this machine")
			why.Node = "right"
			unfit := wellNode(2, "right")
			unfit.Unfit = why
			s := aStatus("settling", wellNode(1, "left"), unfit)
			s.Pool.Left = 4200 * time.Millisecond
			s.Run = &orch.RunStatus{Run: aRun, Attempt: 1, Phase: "done", Since: 2 * time.Second, Outcome: "faulted", Fault: why}
			inTheWay(&s, id.NodeID{}, "stable for 2.6 s of 6.8 s", "")
			return s
		},
		"settling": func() orch.Status {
			deferred := wellNode(1, "left")
			deferred.Deferred, deferred.Devices = true, nil
			s := aStatus("settling", deferred, wellNode(2, "right"))
			s.Pool.Left = 4200 * time.Millisecond
			inTheWay(&s, id.NodeID{}, "stable for 2.6 s of 6.8 s", "")
			return s
		},
		"provisioning": func() orch.Status {
			s := aStatus("committed", wellNode(1, "left"), wellNode(2, "right"))
			s.Run = &orch.RunStatus{Run: aRun, Attempt: 1, Phase: "provisioning", Since: 1500 * time.Millisecond, Outcome: "open", Stages: stages}
			inTheWay(&s, id.NodeID{}, "run "+aRun.Short()+" holds the pool", "")
			return s
		},
		"serving": func() orch.Status {
			s := aStatus("committed", wellNode(1, "left"), wellNode(2, "right"))
			s.Run = &orch.RunStatus{Run: aRun, Attempt: 1, Phase: "serving", Since: 2 * time.Hour, Outcome: "open", Stages: stages[:1]}
			s.Serving = true
			inTheWay(&s, id.NodeID{}, "run "+aRun.Short()+" holds the pool", "")
			return s
		},
		"lost": func() orch.Status {
			dead := wellNode(2, "right")
			dead.Swim, dead.Answered = "dead", 90*time.Second
			s := aStatus("waiting", wellNode(1, "left"), dead)
			why := fault.New(fault.NodeDied, "gate", "name", "right", "endpoint", "10.0.0.2:6878", "incarnation", 1)
			why.Node = aNode(2).Short()
			s.Run = &orch.RunStatus{Run: aRun, Attempt: 1, Phase: "done", Since: 88 * time.Second, Outcome: "faulted", Fault: why}
			inTheWay(&s, aNode(2), "dead for 88.0 s, last answer 90.0 s ago", "see whether its machine and its link are well, or remove it from the pool")
			return s
		},
		"struck": func() orch.Status {
			s := aStatus("faulted", wellNode(1, "left"), wellNode(2, "right"))
			why := fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "nothing")
			why.Node = "right"
			s.Run = &orch.RunStatus{Run: aRun, Attempt: 1, Phase: "tearing down", Since: 200 * time.Millisecond, Outcome: "faulted", Fault: why}
			inTheWay(&s, id.NodeID{}, "run "+aRun.Short()+" holds the pool", "")
			inTheWay(&s, aNode(1), "has not said that it freed run "+aRun.Short(), "it is asked again and again; start it anew if it does not come to it")
			return s
		},
		"aborted": func() orch.Status {
			s := aStatus("aborted", wellNode(1, "left"))
			inTheWay(&s, id.NodeID{}, "the formation was given up: gate: the pool was not ready within 5.0 s", "see what it names, then ask for another formation with `muster form`")
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { looksLike(t, "status", name, statusText(of())) })
	}
}

func TestTheStatusOfANodeReadsAtAGlance(t *testing.T) {
	told := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	now := told.Add(2 * time.Second)
	fact := func(name, state, detail string) node.FactStatus {
		return node.FactStatus{Name: name, State: state, Since: 3 * time.Second, Detail: detail}
	}
	well := func(worker node.FactStatus) localStatus {
		return localStatus{Alive: true, Local: node.Local{
			Version: "1.0", Process: process.Mark{PID: 4711}, Told: told, Orchestrator: "ID@10.0.0.9:6878",
			Status: node.Status{
				Node: aNode(1), Boot: boot1, Phase: "available", Attempt: 1,
				Facts: []node.FactStatus{fact("process", "proven", "pid 4711"), fact("identity", "proven", "pool lab"), worker, fact("swim", "proven", "2 peers")},
			},
		}}
	}
	why := fault.New(fault.WorkerBinaryMissing, "worker", "path", "/opt/muster-worker")
	failed := fact("worker", "failed", "")
	failed.Fault, failed.Hint = why, why.Hint()
	proven := fact("worker", "proven", "llama.cpp 0.4.0 on CPU")
	for name, of := range map[string]func() localStatus{
		"node_available": func() localStatus {
			l := well(proven)
			l.Status.Stage = &node.StageStatus{Run: aRun, Attempt: 1, Model: "tale", Layers: gguf.Range{Start: 0, End: 4}, Phase: "ready"}
			return l
		},
		"node_deferred": func() localStatus {
			l := well(fact("worker", "deferred", ""))
			l.Deferred, l.Pool = true, "lab"
			return l
		},
		"node_faulted": func() localStatus {
			l := well(failed)
			l.Status.Phase, l.Status.Fault, l.Status.Facts[3].State = "faulted", why, "pending"
			l.Loss = &node.Loss{Attempt: 1, At: told, Fault: why}
			return l
		},
		"node_again": func() localStatus {
			l := well(fact("worker", "proving", ""))
			l.Status.Phase, l.Status.Attempt = "proving", 2
			l.Loss = &node.Loss{Attempt: 1, At: told.Add(-time.Minute), Fault: why}
			return l
		},
		"node_killed": func() localStatus {
			l := well(proven)
			l.Alive = false
			return l
		},
		"node_failed": func() localStatus {
			l := well(failed)
			l.Alive, l.Status.Phase, l.Status.Fault, l.Ended = false, "faulted", why, &node.Ended{Fault: why}
			return l
		},
		"node_left": func() localStatus {
			l := well(proven)
			l.Alive, l.Status.Phase, l.Ended = false, "left", &node.Ended{}
			return l
		},
	} {
		t.Run(name, func(t *testing.T) { looksLike(t, "status", name, localText(of(), now)) })
	}
}
