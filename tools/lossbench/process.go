//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a program that dies with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a command in a namespace, nil for this program's own. Its thread
// lives as long as the process: the kernel takes the end of the thread that
// started a process for its parent's.
func start(cmd *exec.Cmd, in *namespace) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	born := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := in.enter()
		if err == nil {
			err = cmd.Start()
		}
		born <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is seen in the trial
			close(p.ended)
		}
	}()
	if err := <-born; err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends the process, also a stopped one, and waits for its end.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// workerOf finds the worker of a node among its children.
func workerOf(node int) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		name, parent := nameAndParent(string(stat))
		if parent == node && name == "muster-worker" {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("process %d has %d workers, not one", node, len(found))
	}
	return found[0], nil
}

// nameAndParent reads /proc/PID/stat: "PID (NAME) STATE PARENT ...".
func nameAndParent(stat string) (string, int) {
	open, shut := strings.Index(stat, "("), strings.LastIndex(stat, ")")
	if open < 0 || shut < open {
		return "", 0
	}
	fields := strings.Fields(stat[shut+1:])
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return stat[open+1 : shut], parent
}

// spin is the flag with which this program only uses up a processor.
const spin = "-spin"

// spinUntilKilled ends with the program that started it.
func spinUntilKilled() {
	runtime.GOMAXPROCS(1)
	for n := uint64(1); n != 0; n = n*6364136223846793005 + 1442695040888963407 { // never 0 in the life of a machine
	}
}

// burn starts a busy loop a processor.
func burn() (stop func(), err error) {
	var all []*process
	stop = func() {
		for _, p := range all {
			p.kill()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range runtime.NumCPU() {
		p, err := start(exec.Command(self, spin), nil)
		if err != nil {
			stop()
			return nil, err
		}
		all = append(all, p)
	}
	return stop, nil
}

// namespace is a network of its own. It has no name: it ends with the last
// process in it and with this program.
type namespace struct{ file *os.File }

func newNamespace() (*namespace, error) {
	type made struct {
		file *os.File
		err  error
	}
	answer := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: no other goroutine is to find itself there
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			answer <- made{err: fmt.Errorf("a network namespace: %w", err)}
			return
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		answer <- made{file, err}
	}()
	m := <-answer
	if m.err != nil {
		return nil, m.err
	}
	return &namespace{m.file}, nil
}

// enter moves the calling thread into the namespace; nil stays where it is.
func (n *namespace) enter() error {
	if n == nil {
		return nil
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering a network namespace: %w", err)
	}
	return nil
}
