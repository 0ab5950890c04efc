//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/orch"
	"muster/internal/testkit"
)

// nodeIs waits until a node's own status is as it should be.
func (b *bench) nodeIs(folder, what string, is func(localStatus) bool) localStatus {
	b.t.Helper()
	var got outcome
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = b.run("status", "--node", "--json", "--data", folder); got.exit != 0 {
			continue
		}
		if l := object[localStatus](b.t, got); is(l) {
			return l
		}
	}
	b.t.Fatalf("the node in %s does not come to be %s: %s%s", folder, what, got.stdout, got.stderr)
	return localStatus{}
}

// shows demands that the output of a verb has all the words.
func (b *bench) shows(args []string, words ...string) {
	b.t.Helper()
	text := b.does(args...)
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.t.Errorf("%v does not show %q:\n%s", args, w, text)
		}
	}
}

// A node is shown on its own machine while it lives, and when it was killed.
func TestANodeIsShownOnItsMachine(t *testing.T) {
	p := newPool(t, 1)
	p.serving()
	folder := p.dir + "/n1"
	l := p.nodeIs(folder, "available", func(l localStatus) bool { return l.Alive && l.Status.Phase == "available" && l.Status.Stage != nil })
	for _, f := range l.Status.Facts {
		if f.State != "proven" {
			t.Errorf("%s is %s", f.Name, f.State)
		}
	}
	if l.Process.PID != p.nodes["n1"].Process.Pid || l.Orchestrator != p.orchestrator || l.Status.Stage.Layers.End != 8 {
		t.Errorf("it is %+v", l)
	}
	p.shows([]string{"status", "--data", folder}, ": available, attempt 1\n", "[x] endpoint", "stage of run", "layers 0 to 7")
	p.shows([]string{"status"}, "pool pool, epoch 1: serving\n", "n1 (", "layers 0 to 7")
	p.kill("n1")
	if l := p.nodeIs(folder, "gone", func(l localStatus) bool { return !l.Alive }); l.Ended != nil {
		t.Errorf("killed, it told that it ended: %+v", l.Ended)
	}
	p.shows([]string{"status", "--data", folder}, ": gone: its process ", "it was killed")
	p.start("n1")
	p.nodeIs(folder, "back", func(l localStatus) bool { return l.Alive && l.Status.Phase == "available" })
}

// A node that gave up is shown with its fault and what to do, and without an
// orchestrator plain status shows it.
func TestANodeThatGaveUpIsShown(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	b.env = append(b.env, "MUSTER_API=", "XDG_CONFIG_HOME="+b.dir)
	folder := filepath.Join(b.dir, "muster", "node")
	b.denied("node.status_missing", "status", "--node")
	got := b.run("node", "--orchestrator", b.ids("other")[0]+"@127.0.0.1:1", "--listen", "127.0.0.1:0", "--give-up", "1s")
	_, code, found := strings.Cut(got.stderr, "code: ")
	if code, _, _ = strings.Cut(code, "\n"); got.exit == 0 || !found {
		t.Fatalf("exit %d: %s", got.exit, got.stderr)
	}
	l := b.nodeIs(folder, "ended", func(l localStatus) bool { return l.Ended != nil })
	if l.Alive || string(l.Ended.Fault.Code) != code || l.Loss == nil {
		t.Errorf("it ended by %s, and is shown as %+v", code, l)
	}
	b.shows([]string{"status", "--node"}, "gone: it ended by the fault "+code, "[!] identity", "[x] process", "-> "+l.Ended.Fault.Hint())
	b.denied("gateway.orchestrator_unreached", "status", "--api", "127.0.0.1:1")
	b.env = append(b.env, "MUSTER_API=127.0.0.1:1")
	b.denied("gateway.orchestrator_unreached", "status")
	must(t, os.WriteFile(filepath.Join(folder, "status.json"), []byte("{"), 0o600))
	b.denied("node.status_unreadable", "status", "--node")
}

// Plain status falls back to the node of this machine.
func TestStatusFallsBackToTheNodeOfThisMachine(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	b.env = append(b.env, "MUSTER_API=", "XDG_CONFIG_HOME="+b.dir)
	if got := b.run("status"); got.exit == 0 {
		t.Skip("an orchestrator runs on this machine: ", got.stdout)
	}
	b.denied("gateway.orchestrator_unreached", "status")
	b.run("node", "--orchestrator", b.ids("other")[0]+"@127.0.0.1:1", "--listen", "127.0.0.1:0", "--give-up", "1ms")
	b.shows([]string{"status"}, "gone: it ended by the fault", "facts:")
	if l := object[localStatus](t, b.run("status", "--json")); l.Ended == nil {
		t.Errorf("it is %+v", l)
	}
}

// A worker that was not proven is shown as that by the node, by the orchestrator
// and in the journal.
func TestADeferredWorkerIsShownEverywhere(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	api := b.leads("one", "--node", b.ids("n1")[0]+"=n1", "--window", "60s")
	b.env = append(b.env, "MUSTER_API="+api)
	s := object[orch.Status](t, b.run("status", "--json"))
	b.joins(s.Orchestrator.String()+"@"+s.Address, "n1", "--defer-worker")
	l := b.nodeIs("n1", "available", func(l localStatus) bool { return l.Status.Phase == "available" })
	if !l.Deferred {
		t.Errorf("it is %+v", l)
	}
	b.shows([]string{"status", "--node", "--data", "n1"}, "[~] worker", "not proven yet: the first stage proves it")
	b.phase("settling")
	b.shows([]string{"status"}, "settling:", "of the window of 1 min 0 s left", "n1 (", "worker deferred")
	b.shows([]string{"events"}, `"worker":"deferred"`)
}
