//go:build linux || darwin

package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

// parentVariable holds the Knobs of the workers of a test binary that is to
// play a daemon.
const parentVariable = "MUSTER_TEST_PARENT"

// workersOfParent is how many workers it starts.
const workersOfParent = 2

// playParent starts the workers, says their numbers and those of their
// grandchildren on stdout, and stays until it is killed.
func playParent() {
	set, asked := os.LookupEnv(parentVariable)
	if !asked {
		return
	}
	var k fakeworker.Knobs
	if err := json.Unmarshal([]byte(set), &k); err != nil {
		panic(err)
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	told := make(chan struct{}, workersOfParent)
	for i := range workersOfParent {
		w, err := worker.Start(context.Background(), worker.Spec{
			Name:   fmt.Sprint("worker ", i+1),
			Binary: exe,
			Env:    k.Env(),
			Log: func(line string) {
				fmt.Println(line)
				told <- struct{}{}
			},
		})
		if err != nil {
			panic(err)
		}
		if _, err := w.Call(context.Background(), wire.Request{Op: wire.OpPing}, nil); err != nil {
			panic(err)
		}
		if k.Do == fakeworker.Grandchild {
			<-told
		}
		fmt.Println("worker", w.PID())
	}
	fmt.Println("ready")
	select {}
}

// parent starts a daemon of its own whose workers have these knobs. It returns
// the numbers of the daemon's descendants by what they are.
func parent(t *testing.T, k fakeworker.Knobs) (daemon *exec.Cmd, descendants map[string][]int) {
	t.Helper()
	set, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon = exec.Command(exe)
	daemon.Env = append(os.Environ(), parentVariable+"="+string(set))
	daemon.Stderr = os.Stderr
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
	descendants = map[string][]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		var what string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &what, &pid); err == nil {
			descendants[what] = append(descendants[what], pid)
		}
	}
	if lines.Text() != "ready" {
		t.Fatalf("the daemon did not start its workers: %v", lines.Err())
	}
	return daemon, descendants
}

func TestNothingOutlivesADaemonKilled(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	ping := fakeworker.On(wire.OpPing)
	for name, c := range map[string]struct {
		knobs   fakeworker.Knobs
		stopped bool
	}{
		"a good worker":                                      {},
		"a stopped worker":                                   {stopped: true},
		"one that does nothing for its part":                 {knobs: fakeworker.Knobs{Bare: true, IgnoreTerm: true, IgnoreStop: true}},
		"a grandchild":                                       {knobs: fakeworker.Knobs{At: ping, Do: fakeworker.Grandchild}},
		"a stopped worker's grandchild":                      {knobs: fakeworker.Knobs{At: ping, Do: fakeworker.Grandchild}, stopped: true},
		"a grandchild of one that does nothing for its part": {knobs: fakeworker.Knobs{At: ping, Do: fakeworker.Grandchild, Bare: true}},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			daemon, descendants := parent(t, c.knobs)
			if n := len(descendants["worker"]); n != workersOfParent {
				t.Fatalf("%d workers", n)
			}
			if c.knobs.Do == fakeworker.Grandchild && len(descendants["grandchild"]) != workersOfParent {
				t.Fatalf("the descendants are %v", descendants)
			}
			if c.stopped {
				for _, pid := range descendants["worker"] {
					kill(t, pid, syscall.SIGSTOP)
				}
			}
			kill(t, daemon.Process.Pid, syscall.SIGKILL)
			for _, pids := range descendants {
				for _, pid := range pids {
					awaitGone(t, pid)
				}
			}
		})
	}
}

func TestTwoDaemonsDoNotShareAFate(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	daemon, descendants := parent(t, fakeworker.Knobs{})
	w := start(t, spec(t, fakeworker.Knobs{}))
	kill(t, daemon.Process.Pid, syscall.SIGKILL)
	for _, pid := range descendants["worker"] {
		awaitGone(t, pid)
	}
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
		t.Errorf("the other daemon's worker gave %v", err)
	}
}

// awaitGone waits until a process that is not ours to reap has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("process %d lives", pid)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// alive reports whether a process runs. One that has ended and waits for
// whoever is to reap it does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}
