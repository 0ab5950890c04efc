package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/process"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
)

// kept reads a node's status from its folder until it is as it should be.
func kept(t *testing.T, dir, what string, ok func(Local) bool) Local {
	t.Helper()
	var l Local
	var err error
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if l, err = ReadLocal(dir); err == nil && ok(l) {
			return l
		}
	}
	t.Fatalf("the status does not come to be %s: %+v, %v", what, l, err)
	return l
}

func TestANodesFolderHoldsItsStatus(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.DataDir = t.TempDir()
	n := o.run(cfg)
	n.available(1)
	l := kept(t, cfg.DataDir, "available", func(l Local) bool { return l.Status.Phase == "available" })
	if l.Status.Node != n.id || l.Status.Boot != n.boot || l.Version != "test" || l.Deferred || l.Loss != nil || l.Ended != nil {
		t.Errorf("it is %+v", l)
	}
	if l.Orchestrator != o.endpoint.ID().String()+"@"+o.endpoint.Addr().String() {
		t.Errorf("its orchestrator is %s", l.Orchestrator)
	}
	if !l.Process.Alive() || l.Process != process.Self() {
		t.Errorf("it was told by %+v", l.Process)
	}
	if len(l.Status.Facts) != 8 {
		t.Errorf("it has %d facts", len(l.Status.Facts))
	}
	for _, f := range l.Status.Facts {
		if f.State != "proven" {
			t.Errorf("%s is %s", f.Name, f.State)
		}
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if l := kept(t, cfg.DataDir, "ended", func(l Local) bool { return l.Ended != nil }); l.Ended.Fault != nil || l.Status.Phase != "left" || l.Status.Node != n.id {
		t.Errorf("it ended as %+v", l)
	}
	if left, _ := filepath.Glob(cfg.DataDir + "/*.new"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// The fault that a node ended by is there when the node is not.
func TestTheStatusOfANodeThatFailedSaysWhy(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3})
	cfg.DataDir, cfg.Once = t.TempDir(), true
	n := o.run(cfg)
	mustBe(t, n.outcome(), fault.WorkerExited)
	l, err := ReadLocal(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, l.Ended.Fault, fault.WorkerExited)
	mustBe(t, l.Loss.Fault, fault.WorkerExited)
	for _, f := range l.Status.Facts {
		if failed := f.State == "failed"; failed != (f.Name == "worker") || failed && (f.Fault == nil || f.Hint == "") {
			t.Errorf("the fact is %+v", f)
		}
	}
}

func mustBe(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if f := fault.From(err); f == nil || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// A worker that was not proven is not shown as if it were.
func TestADeferredWorkerIsShownAsSuch(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.DataDir, cfg.DeferWorker = t.TempDir(), true
	n := o.run(cfg)
	n.available(1)
	l := kept(t, cfg.DataDir, "available", func(l Local) bool { return l.Status.Phase == "available" })
	if !l.Deferred {
		t.Error("the policy is not shown")
	}
	for _, f := range l.Status.Facts {
		if want := map[bool]string{true: "deferred", false: "proven"}[f.Name == "worker"]; f.State != want {
			t.Errorf("%s is %s, want %s", f.Name, f.State, want)
		}
	}
}

// One folder is one node: a second is refused, and leaves the first's status
// alone. One that was killed holds nothing.
func TestASecondNodeOfOneFolderIsRefused(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.DataDir = t.TempDir()
	if err := (Local{Process: process.Mark{PID: 1 << 30}, Pool: "of one that was killed", Told: time.Now()}).write(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	n := o.run(cfg)
	n.available(1)
	second := cfg
	second.Pool = "of a second"
	mustBe(t, Run(t.Context(), second), fault.NodeFolderLocked)
	if l, err := ReadLocal(cfg.DataDir); err != nil || l.Process != process.Self() || l.Pool != cfg.Pool || l.Ended != nil {
		t.Errorf("the status is %+v, %v", l, err)
	}
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// A status that cannot be written is told, once, and keeps no node from serving.
func TestAStatusThatCannotBeKeptIsTold(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{})
	cfg.DataDir = t.TempDir()
	if err := os.Mkdir(filepath.Join(cfg.DataDir, statusName+".new"), 0o700); err != nil { // in the way
		t.Fatal(err)
	}
	n := o.run(cfg)
	n.available(1)
	n.until("the fault", func() bool { return count[event.NodeStatusUnwritten](n) > 0 })
	if err := n.end(); err != nil {
		t.Error(err)
	}
	if told := count[event.NodeStatusUnwritten](n); told != 1 {
		t.Errorf("it was told %d times", told)
	}
	mustBe(t, latest[event.NodeStatusUnwritten](n).Fault, fault.NodeStatusUnwritten)
}

func TestAStatusThatIsNoneIsRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadLocal(dir)
	mustBe(t, err, fault.NodeStatusMissing)
	for _, text := range []string{"", "{", "[]", `{"process":{"pid":"x"}}`, strings.Repeat("[", 20000)} {
		if err := os.WriteFile(filepath.Join(dir, statusName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadLocal(dir)
		mustBe(t, err, fault.NodeStatusUnreadable)
	}
}
