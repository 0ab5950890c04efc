package local

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/identity"
	"muster/internal/process"
)

// child is a node's process.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin *os.File // held open for as long as the node is wanted
	told  *fault.Fault
	tail  tail

	ended chan struct{}
	fault *fault.Fault // why it ended, written before ended closes; nil where it left in order
}

// outputWithin is how long what an ended process has written may take to be
// read: what it started may hold its output open.
const outputWithin = time.Second

// startChild starts a node and hands it its key.
func startChild(name, program string, args []string, key ed25519.PrivateKey, tell func(string, event.Event), log func(of, line string)) (*child, error) {
	c := &child{name: name, ended: make(chan struct{}), tail: tail{name: name, log: log}}
	failed := func(err error) error {
		return fault.New(fault.NodeSpawnFailed, name, "path", program).Because(err)
	}
	stdin, ours, err := os.Pipe()
	if err != nil {
		return nil, failed(err)
	}
	c.stdin = ours
	out, stdout, err := os.Pipe()
	if err != nil {
		closeAll(stdin, ours)
		return nil, failed(err)
	}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = stdin, stdout, &c.tail, attributes()
	c.cmd.WaitDelay = outputWithin
	born := make(chan error)
	go c.keep(born, out, tell)
	err = <-born
	closeAll(stdin, stdout)
	if err != nil {
		closeAll(ours, out)
		return nil, failed(err)
	}
	if err := identity.Write(c.stdin, key); err != nil {
		c.end(0)
		return nil, failed(err)
	}
	return c, nil
}

// keep starts the process and waits for its end, on a thread of its own: the
// kernel takes the end of the thread that started a process for its parent's.
func (c *child) keep(born chan<- error, out *os.File, tell func(string, event.Event)) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	err := c.cmd.Start()
	born <- err
	if err != nil {
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() { c.read(out, tell) })
	err = c.cmd.Wait()
	overdue := time.AfterFunc(outputWithin, func() { _ = out.Close() })
	reading.Wait()
	overdue.Stop()
	_ = out.Close() // it may be closed already
	c.fault = c.verdict(err)
	close(c.ended)
}

// read takes what the node tells: an event an object, and last its fault.
func (c *child) read(out io.Reader, tell func(string, event.Event)) {
	for dec := json.NewDecoder(bufio.NewReader(out)); ; {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return
		}
		var last struct {
			Fault *fault.Fault `json:"fault"`
			Event string       `json:"event"`
		}
		if err := json.Unmarshal(raw, &last); err != nil {
			continue // not ours
		}
		if last.Event == "" {
			c.told = last.Fault
			continue
		}
		if e, known := event.Parse(raw); known {
			tell(c.name, e)
		}
	}
}

// verdict is why the process ended: by its own word, or as the system has it.
func (c *child) verdict(err error) *fault.Fault {
	var exited *exec.ExitError
	switch {
	case c.told != nil:
		c.told.Node = c.name
		return c.told
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && c.cmd.ProcessState.Success():
		return nil
	case errors.As(err, &exited):
		return fault.New(fault.NodeProcessEnded, c.name, "how", ending(exited.ProcessState), "said", c.tail.last())
	}
	return fault.New(fault.NodeProcessEnded, c.name, "how", err.Error(), "said", c.tail.last())
}

// watch tells how the process ended, or that it has been stopped for a while.
func (c *child) watch(fail func(*fault.Fault)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var since time.Time // it was seen stopped, each time
	for {
		select {
		case <-c.ended:
			fail(c.fault)
			return
		case now := <-tick.C:
			switch {
			case !process.Stopped(c.cmd.Process.Pid):
				since = time.Time{}
			case since.IsZero():
				since = now
			case now.Sub(since) >= stoppedWithin:
				fail(fault.New(fault.NodeProcessStopped, c.name, "pid", c.cmd.Process.Pid, "waited", now.Sub(since).Round(time.Second)))
			}
		}
	}
}

// How often a process is looked at, and for how long it may be stopped.
const (
	lookEvery     = 500 * time.Millisecond
	stoppedWithin = 3 * time.Second
)

// end has the node leave, and kills it where it has not within a time, or is
// stopped and cannot.
func (c *child) end(within time.Duration) {
	_ = c.stdin.Close() // an end that was called twice
	if process.Stopped(c.cmd.Process.Pid) {
		within = 0
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.ended:
		return
	case <-late.C:
	}
	_ = c.cmd.Process.Kill() // it may have ended by now
	<-c.ended
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written to it
	}
}

// tail takes a process's stderr line by line and keeps the last ones.
type tail struct {
	name string
	log  func(of, line string)

	mu   sync.Mutex
	part []byte
	kept []string
}

const (
	keptLines = 5
	mostLine  = 4 << 10
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part = append(t.part, b...)
	for {
		line, rest, whole := bytes.Cut(t.part, []byte("\n"))
		if !whole && len(t.part) < mostLine {
			return len(b), nil
		}
		t.take(string(line[:min(len(line), mostLine)]))
		t.part = append([]byte(nil), rest...)
	}
}

func (t *tail) take(line string) {
	if t.log != nil {
		t.log(t.name, line)
	}
	if t.kept = append(t.kept, line); len(t.kept) > keptLines {
		t.kept = t.kept[1:]
	}
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%q", strings.Join(t.kept, "; "))
}
