//go:build unix

package main

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/orch"
	"muster/internal/testkit"
)

// ids makes keys of nodes and gives their ids.
func (b *bench) ids(names ...string) []string {
	b.t.Helper()
	var all []string
	for _, name := range names {
		got := b.run("node", "--id", "--data", filepath.Join(b.dir, name))
		if got.exit != 0 {
			b.t.Fatal(got.stderr)
		}
		all = append(all, strings.TrimSpace(got.stdout))
	}
	return all
}

// does runs muster and demands that it ends well.
func (b *bench) does(args ...string) string {
	b.t.Helper()
	got := b.run(args...)
	if got.exit != 0 {
		b.t.Fatalf("%v: exit %d: %s", args, got.exit, got.stderr)
	}
	return got.stdout
}

// denied runs muster and demands that it ends by that fault, while others write
// to the folder; it returns what was said.
func (b *bench) denied(code string, args ...string) string {
	b.t.Helper()
	got := b.run(args...)
	if got.exit == 0 || !strings.Contains(got.stderr, "code: "+code+"\n") {
		b.t.Errorf("%v: exit %d, want the fault %s: %s", args, got.exit, code, got.stderr)
	}
	return got.stderr
}

// changed runs a verb that changes the pool and returns what became of it.
func (b *bench) changed(args ...string) poolChanged {
	b.t.Helper()
	return object[poolChanged](b.t, b.run(append([]string{"pool", "--json"}, args...)...))
}

// leads starts an orchestrator of its own in a folder and returns the address
// that it answers at.
func (b *bench) leads(folder string, flags ...string) (api string) {
	b.t.Helper()
	stdout := b.beside(append([]string{
		"serve", "--data", filepath.Join(b.dir, folder),
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--profile", "local",
	}, flags...)...)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, at, found := strings.Cut(lines.Text(), "others ask at:"); found {
			return strings.TrimSpace(at)
		}
	}
	b.t.Fatal("the orchestrator did not say where it is")
	return ""
}

// phase waits for a phase of the pool.
func (b *bench) phase(want string) {
	b.t.Helper()
	var s orch.Status
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if s = object[orch.Status](b.t, b.run("status", "--json")); s.Pool.Phase == want {
			return
		}
	}
	b.t.Fatalf("the pool is %s, not %s", s.Pool.Phase, want)
}

// joins starts a node in a folder.
func (b *bench) joins(orchestrator, folder string, flags ...string) {
	b.t.Helper()
	b.beside(append([]string{
		"node", "--orchestrator", orchestrator, "--data", filepath.Join(b.dir, folder), "--listen", "127.0.0.1:0",
	}, flags...)...)
}

// beside starts muster beside the test, which kills it at its end.
func (b *bench) beside(args ...string) io.Reader {
	b.t.Helper()
	cmd := exec.Command(testkit.MusterBinary(b.t), args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	stdout, err := cmd.StdoutPipe()
	must(b.t, err)
	must(b.t, cmd.Start())
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return stdout
}
