package fakeworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
	"muster/internal/worker/child"
)

// Main plays the worker and exits when the environment asks for one, and
// returns otherwise.
func Main() {
	set, asked := os.LookupEnv(variable)
	if !asked {
		return
	}
	var k Knobs
	if err := json.Unmarshal([]byte(set), &k); err != nil {
		die(err)
	}
	if k.Do == grandchild {
		forever()
	}
	if k.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	if k.Pid {
		fmt.Fprintln(os.Stderr, "pid", os.Getpid())
	}
	for _, line := range k.Words {
		fmt.Fprintln(os.Stderr, line)
	}
	f := &fake{Knobs: k, in: os.Stdin, out: os.Stdout}
	if !k.Bare {
		var err error
		if f.in, f.out, err = child.Hold(); err != nil {
			die(err)
		}
	}
	f.Child = child.Talk(f.in, f.out)
	os.Exit(f.serve())
}

func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// forever blocks without the runtime finding a deadlock.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// fake is one life of a fake worker.
type fake struct {
	Knobs
	*child.Child
	in, out *os.File
	work    sync.WaitGroup // answers under way
}

// serve reads requests to the end and returns the exit status. Each is
// answered by a goroutine, as a worker answers Ping while it computes.
func (f *fake) serve() int {
	if f.At == AtStart {
		f.misbehave(wire.Request{})
	}
	for {
		req, err := f.Next()
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			die(err)
		}
		if req.Op == wire.OpStop && f.IgnoreStop {
			continue
		}
		if req.Op == wire.OpStop {
			f.work.Wait()
			f.answer(req)
			return f.StopStatus
		}
		if f.Do == Deaf && f.At == On(req.Op) {
			forever()
		}
		f.work.Go(func() { f.answer(req) })
	}
}

// answer answers well, or does what the knobs say in place of it.
func (f *fake) answer(req wire.Request) {
	time.Sleep(f.AnswerAfter)
	if f.At == On(req.Op) {
		f.misbehave(req)
		return
	}
	switch {
	case req.Attach != nil && req.Attach.Echo:
		echo(*req.Attach, f.BadEcho)
	case req.Attach != nil:
		attach(*req.Attach)
	}
	f.say(good(req))
	if req.Op == wire.OpOpen && f.At == AtIdle {
		f.misbehave(wire.Request{})
	}
}

// attach says on stderr what the file passed as the arena holds.
func attach(a wire.Attach) {
	arena, err := child.Descriptor(a.ArenaFD, "arena")
	if err != nil {
		die(err)
	}
	held := make([]byte, a.ArenaSize)
	if _, err := io.ReadFull(arena, held); err != nil {
		die(err)
	}
	fmt.Fprintf(os.Stderr, "attached: %s\n", held)
}

func (f *fake) say(replies ...wire.Reply) {
	for _, r := range replies {
		if err := f.Send(r); err != nil {
			die(err)
		}
	}
}

// good is what a worker with an engine might answer.
func good(req wire.Request) wire.Reply {
	r := wire.Reply{ID: req.ID}
	switch req.Op {
	case wire.OpOpen:
		r.Opened = &wire.Opened{PID: os.Getpid(), Engine: "fake", System: "none", Devices: []wire.Device{{Kind: "cpu", Name: "CPU"}}}
		if req.Open == nil || req.Open.Protocol != wire.WorkerProtocol {
			return wire.Reply{ID: req.ID, Fault: fault.New(fault.WorkerProtocolBroken, "", "what", "another version of the protocol")}
		}
	case wire.OpLoad:
		r.Loaded = &wire.Loaded{Width: 8, Vocabulary: 256, Layers: 1, Context: 16}
	case wire.OpTokenize:
		if req.Tokenize != nil {
			for _, b := range []byte(req.Tokenize.Text) {
				r.Tokens = append(r.Tokens, int32(b))
			}
		}
	case wire.OpVocab:
		r.Vocab = &wire.Vocab{Pieces: [][]byte{[]byte("a"), {}}, EOG: []int32{1}, BOS: -1}
	case wire.OpStats:
		r.Stats = &wire.Stats{Records: 1}
	case wire.OpTrial, wire.OpAttach, wire.OpServe, wire.OpPing, wire.OpStop:
	}
	return r
}
