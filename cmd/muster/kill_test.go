//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/internal/testkit"
)

// house is a verb that serves with processes of its own.
type house struct {
	args      []string
	process   *regexp.Regexp // a line that tells of a process: its name and its number
	ready     string         // in the line that says that all is there
	processes int
}

var (
	workers = house{
		[]string{"worker", "chain", "--nodes", "3", "--threads", "1"},
		regexp.MustCompile(`(worker \d+): process (\d+),`), "3 workers ready", 3,
	}
	nodes = house{
		[]string{"up", "--nodes", "3", "--threads", "1"},
		regexp.MustCompile(`(n\d: (?:process|worker)) +proven in [^:]+: pid (\d+)`), " serves, ", 6,
	}
)

// inEach runs a test in either house.
func inEach(t *testing.T, test func(t *testing.T, h house)) {
	t.Run("workers", func(t *testing.T) { test(t, workers) })
	t.Run("nodes", func(t *testing.T) { test(t, nodes) })
}

// serving is a muster that waits for lines of input.
type serving struct {
	*bench
	cmd  *exec.Cmd
	in   io.WriteCloser
	pids map[string]int

	mu     sync.Mutex
	stderr strings.Builder
	ended  chan struct{} // stderr has ended
}

// serve starts a house and waits until it is ready.
func serveIn(t *testing.T, h house) *serving {
	t.Helper()
	testkit.Need(t, testkit.Linux)
	s := &serving{bench: newBench(t), ended: make(chan struct{}), pids: map[string]int{}}
	s.cmd = exec.Command(testkit.MusterBinary(t), h.args...)
	s.cmd.Dir, s.cmd.Env = s.dir, s.env
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	ready := make(chan struct{})
	go s.read(stderr, h, ready)
	select {
	case <-ready:
	case <-s.ended:
		t.Fatalf("muster ended: %s", s.said())
	case <-time.After(30 * time.Second):
		t.Fatalf("not ready: %s", s.said())
	}
	if len(s.pids) != h.processes {
		t.Fatalf("%d processes in %s", len(s.pids), s.said())
	}
	return s
}

func (s *serving) read(stderr io.Reader, h house, ready chan struct{}) {
	defer close(s.ended)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		s.mu.Lock()
		s.stderr.WriteString(line + "\n")
		s.mu.Unlock()
		if m := h.process.FindStringSubmatch(line); m != nil {
			s.pids[m[1]], _ = strconv.Atoi(m[2])
		}
		if strings.Contains(line, h.ready) {
			close(ready)
		}
	}
}

// signal sends a signal to a process of the house.
func (s *serving) signal(name string, sig syscall.Signal) {
	s.t.Helper()
	pid := s.pids[name]
	if pid == 0 {
		s.t.Fatalf("no process %q among %v", name, s.pids)
	}
	must(s.t, syscall.Kill(pid, sig))
}

func (s *serving) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// wait returns the exit code.
func (s *serving) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		s.t.Fatalf("muster does not end: %s", s.said())
	}
	err := s.cmd.Wait()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode()
}

// leavesNothing demands that the processes are gone soon, and every file with
// them.
func (s *serving) leavesNothing() {
	s.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for _, pid := range s.pids {
		for !gone(pid) {
			if time.Now().After(deadline) {
				s.t.Fatalf("process %d is still there", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if files := s.files(); !slices.Equal(files, []string{s.dir}) {
		s.t.Errorf("files are left: %q", files)
	}
}

// gone is true of a process that has ended, reaped or not.
func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestKillOfMusterLeavesNothing(t *testing.T) {
	inEach(t, func(t *testing.T, h house) {
		s := serveIn(t, h)
		must(t, s.cmd.Process.Kill())
		s.wait()
		s.leavesNothing()
	})
	for h, stopped := range map[*house][]string{&workers: {"worker 2"}, &nodes: {"n1: process", "n2: worker"}} {
		for _, name := range stopped {
			t.Run("with "+name+" stopped", func(t *testing.T) {
				s := serveIn(t, *h)
				s.signal(name, syscall.SIGSTOP)
				must(t, s.cmd.Process.Kill())
				s.wait()
				s.leavesNothing()
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestALostProcessEndsMuster(t *testing.T) {
	for name, c := range map[string]struct {
		house  house
		victim string
		signal syscall.Signal
		code   string
		says   string
	}{
		"a worker, killed":           {workers, "worker 2", syscall.SIGKILL, "worker.killed", "muster: worker 2"},
		"a worker, fault":            {workers, "worker 2", syscall.SIGSEGV, "worker.killed", "muster: worker 2"},
		"a node, killed":             {nodes, "n2: process", syscall.SIGKILL, "node.process_ended", "muster: n2"},
		"a worker of a node, killed": {nodes, "n2: worker", syscall.SIGKILL, "worker.killed", "n2"},
		"a worker of a node, fault":  {nodes, "n3: worker", syscall.SIGSEGV, "worker.killed", "n3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveIn(t, c.house)
			s.signal(c.victim, c.signal)
			if exit := s.wait(); exit != 7 || !strings.Contains(s.said(), "code: "+c.code+"\n") {
				t.Errorf("exit %d: %s", exit, s.said())
			}
			if _, told, _ := strings.Cut(s.said(), "\nmuster: "); !strings.Contains("muster: "+told, c.says) {
				t.Errorf("nothing of %q in %s", c.says, s.said())
			}
			s.leavesNothing()
		})
	}
}

func TestAStoppedProcessEndsTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		house  house
		victim string
		says   []string
	}{
		"a worker":           {workers, "worker 3", []string{"code: worker.stopped\n", "SIGSTOP", "worker 3"}},
		"a worker of a node": {nodes, "n3: worker", []string{"code: worker.stopped\n", "SIGSTOP", "n3"}},
		"a node":             {nodes, "n2: process", []string{"code: node.", "n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveIn(t, c.house)
			s.signal(c.victim, syscall.SIGSTOP)
			_, err := io.WriteString(s.in, "Once upon a time\n")
			must(t, err)
			exit := s.wait()
			_, told, _ := strings.Cut(s.said(), "\nmuster: ")
			if exit < 7 || exit > 9 {
				t.Errorf("exit %d: %s", exit, s.said())
			}
			for _, want := range c.says {
				if !strings.Contains(told, want) {
					t.Errorf("nothing of %q in %s", want, s.said())
				}
			}
			s.leavesNothing()
		})
	}
}

func TestAskedToStop(t *testing.T) {
	inEach(t, func(t *testing.T, h house) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(sig.String(), func(t *testing.T) {
				s := serveIn(t, h)
				must(t, s.cmd.Process.Signal(sig))
				if exit := s.wait(); exit != 10 || !strings.Contains(s.said(), "code: run.interrupted") {
					t.Errorf("exit %d: %s", exit, s.said())
				}
				s.leavesNothing()
			})
		}
		t.Run("end of input", func(t *testing.T) {
			s := serveIn(t, h)
			must(t, s.in.Close())
			if exit := s.wait(); exit != 0 {
				t.Errorf("exit %d: %s", exit, s.said())
			}
			s.leavesNothing()
		})
	})
	for h, name := range map[*house]string{&workers: "worker 1", &nodes: "n1: process"} {
		t.Run("twice, while "+name+" does not hear", func(t *testing.T) {
			s := serveIn(t, *h)
			s.signal(name, syscall.SIGSTOP)
			must(t, s.cmd.Process.Signal(syscall.SIGINT))
			must(t, s.cmd.Process.Signal(syscall.SIGINT))
			if exit := s.wait(); exit != 10 {
				t.Errorf("exit %d: %s", exit, s.said())
			}
			s.leavesNothing()
		})
	}
}

// A muster that was itself stopped for a while blames no worker for it.
func TestAPauseOfMusterIsNobodysFault(t *testing.T) {
	s := serveIn(t, workers)
	_, err := io.WriteString(s.in, "Once upon a time\n")
	must(t, err)
	must(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	for resumed := time.Now().Add(6 * time.Second); time.Now().Before(resumed); { // beyond the step's deadline
		time.Sleep(50 * time.Millisecond)
	}
	must(t, s.cmd.Process.Signal(syscall.SIGCONT))
	must(t, s.in.Close())
	if exit := s.wait(); exit != 0 {
		t.Errorf("exit %d: %s", exit, s.said())
	}
	s.leavesNothing()
}
