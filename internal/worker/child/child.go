// Package child is the worker's half of the contract between daemon and worker:
// what a worker process does so that its end is always noticed and always
// comes. The daemon's half is package worker.
//
// Start is the first call of a worker's main. It
//
//   - lets SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT end the process, so that
//     its wait status names the signal (the Go runtime would print a trace and
//     exit with status 2),
//   - keeps core files of several gigabytes from being written,
//   - takes stdin and stdout for the protocol alone: what a foreign library
//     prints goes to stderr,
//   - dies with the parent: it watches the lifeline, whose end means that the
//     parent is gone, and takes its whole process group with it.
//
// The package knows nothing of engines, rings or models. Its one goroutine, the
// watch on the lifeline, lives as long as the process.
package child

import (
	"io"
	"os"
	"sync"

	"muster/internal/fault"
	"muster/internal/wire"
)

// component names the worker in faults before it has been told its name.
const component = "muster-worker"

// Child is a worker's conversation with its daemon.
type Child struct {
	in   *wire.LineReader
	last uint64 // id of the last request

	mu   sync.Mutex
	out  io.Writer
	line []byte
}

// Start takes hold of the process as the package comment says and converses
// over what were its stdin and stdout. It must be called once, before anything
// else is started or loaded. Faults: those of Hold.
func Start() (*Child, error) {
	in, out, err := Hold()
	if err != nil {
		return nil, err
	}
	return Talk(in, out), nil
}

// Hold is Start without the conversation: it returns what were stdin and
// stdout. Faults: worker.protocol_broken where descriptor wire.LifelineFD is no
// pipe, as when the program was started by hand; worker.spawn_failed;
// platform.unsupported.
func Hold() (in, out *os.File, err error) {
	if err := watchLifeline(); err != nil {
		return nil, nil, err
	}
	dieOfSignals()
	return takeStdio()
}

// Talk converses over in and out without touching the process.
func Talk(in io.Reader, out io.Writer) *Child {
	return &Child{in: wire.NewLineReader(in, wire.LineLimit), out: out}
}

// Next reads one request. It returns io.EOF once the daemon has closed the
// conversation, and a fault worker.protocol_broken for what is not a request:
// both mean that the worker should end. One goroutine may call it.
func (c *Child) Next() (wire.Request, error) {
	var req wire.Request
	if err := c.in.Next(&req); err != nil {
		return wire.Request{}, err
	}
	if req.ID <= c.last {
		return wire.Request{}, fault.New(fault.WorkerProtocolBroken, component, "what", "the id of a request does not rise")
	}
	c.last = req.ID
	return req, nil
}

// Send writes one reply. Any goroutine may call it; replies never mix. An
// error means that the daemon no longer listens.
func (c *Child) Send(r wire.Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := wire.AppendLine(c.line[:0], r)
	if err != nil {
		return err
	}
	if cap(line) <= 1<<20 {
		c.line = line
	}
	_, err = c.out.Write(line)
	return err
}
