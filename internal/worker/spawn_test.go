//go:build linux || darwin

package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

func TestWhatCannotBeStartedIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		binary string
		code   fault.Code
	}{
		"no file":            {filepath.Join(dir, "nothing"), fault.WorkerBinaryMissing},
		"a folder":           {dir, fault.WorkerBinaryMissing},
		"not executable":     {file("data", "x", 0o600), fault.WorkerBinaryRefused},
		"no program":         {file("text", "x", 0o700), fault.WorkerBinaryRefused},
		"its loader is away": {file("script", "#!/nowhere/ld.so\n", 0o700), fault.WorkerLibraryMissing},
		"another program":    {"/bin/true", fault.WorkerExited},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, fakeworker.Knobs{})
			s.Binary = c.binary
			f := live(t, s)
			if f.Code != c.code || f.Component != "worker 1" {
				t.Errorf("got %v (%s)", f, f.Code)
			}
			if f.Code == fault.WorkerBinaryMissing && f.Attr("path") != c.binary {
				t.Errorf("path %q", f.Attr("path"))
			}
		})
	}
}

func TestFilesArePassedInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	if err := os.WriteFile(path, []byte("the arena"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	told := make(chan string, 1)
	s := spec(t, fakeworker.Knobs{})
	s.Files = []*os.File{null, file}
	s.Log = func(line string) { told <- line }
	w := start(t, s)
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpAttach, Attach: &wire.Attach{ArenaFD: wire.LifelineFD + 2, ArenaSize: 9}}, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "attached: the arena" {
		t.Errorf("the worker says %q", got)
	}
}

func TestAWorkerHasAGroupAndNotASession(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{}))
	group, err := unix.Getpgid(w.PID())
	if err != nil || group != w.PID() {
		t.Errorf("group %d of process %d, %v", group, w.PID(), err)
	}
	session, _ := unix.Getsid(w.PID())
	own, _ := unix.Getsid(0)
	if session != own {
		t.Errorf("session %d, the daemon's is %d", session, own)
	}
}

func TestTheEnvironmentHoldsTheContract(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("MUSTER_TEST_INHERITED", "yes")
	s := spec(t, fakeworker.Knobs{})
	s.Env = append(s.Env, "GGML_NO_BACKTRACE=0", "MUSTER_TEST_ADDED=yes")
	w := start(t, s)
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", w.PID()))
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(string(raw), "\x00")
	for _, want := range []string{"LC_ALL=C", "GGML_NO_BACKTRACE=1", "MUSTER_TEST_INHERITED=yes", "MUSTER_TEST_ADDED=yes"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(string(raw), "de_DE") || strings.Contains(string(raw), "BACKTRACE=0") {
		t.Error("a key is there twice")
	}
}

func TestWorkersOfOneDaemonDoNotShareAFate(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	testkit.Leaks(t)
	workers := make([]*worker.Worker, 3)
	for i := range workers {
		workers[i] = start(t, spec(t, fakeworker.Knobs{}))
	}
	// Whoever holds a sibling's lifeline keeps it from ending.
	lifeline, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", workers[0].PID(), wire.LifelineFD))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workers[1:] {
		if slices.Contains(openIn(t, w.PID()), lifeline) {
			t.Error("a worker holds another's lifeline")
		}
	}
	kill(t, workers[0].PID(), syscall.SIGKILL)
	await(t, workers[0])
	for _, w := range workers[1:] {
		if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
			t.Errorf("after the death of another a ping gave %v", err)
		}
	}
}

// openIn names what the descriptors of a process stand for.
func openIn(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}
