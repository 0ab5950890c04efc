package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"muster/internal/arena"
	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/wire"
	"muster/internal/worker"
)

// crew is a worker that has proven itself, with its two rings. It serves one
// stage; the next one has a crew of its own.
type crew struct {
	worker *worker.Worker
	in     *arena.Ring // into the worker
	out    *arena.Ring // out of it
	feed   *arena.Producer
	drain  *arena.Consumer

	backend admit.Digest // of what it computes by and on
}

// Descriptors of the worker, in the order in which it is born with them.
const (
	fdArena = wire.LifelineFD + 1 + iota
	fdInWait
	fdInRing
	fdOutWait
	fdOutRing
	fdTrial
)

const (
	workerName  = "worker"
	logWarnings = 3 // ggml's level from which lines reach stderr
	stopWithin  = 6 * time.Second
	grace       = time.Second // each wait of a worker's stop, so that all fit into a part of a teardown
)

// newCrew leases two rings, starts a worker with them, and has it prove that it
// sees the same memory and that its engine computes.
func (n *node) newCrew(ctx context.Context, mem *arena.Arena) (*crew, error) {
	slice, err := n.trial.file(ctx)
	if err != nil {
		return nil, err
	}
	c := &crew{}
	if err := c.layRings(mem); err != nil {
		c.end()
		return nil, err
	}
	if err := c.start(ctx, n, mem, slice); err != nil {
		c.end()
		return nil, err
	}
	if err := c.provenBy(ctx, n, mem); err != nil {
		c.end()
		return nil, c.cause(err)
	}
	return c, nil
}

// provenBy has the worker prove itself, while the engine's files are read.
func (c *crew) provenBy(ctx context.Context, n *node, mem *arena.Arena) error {
	read := make(chan error, 1)
	go func() {
		b, err := n.backend(c.worker.Opened())
		c.backend = b.Digest()
		read <- err
	}()
	err := c.prove(ctx, mem)
	if unread := <-read; err == nil {
		err = unread
	}
	return err
}

// layRings leases the rings and takes this process's ends of them.
func (c *crew) layRings(mem *arena.Arena) error {
	var err error
	if c.in, err = mem.NewRing(ringSize); err != nil {
		return err
	}
	if c.out, err = mem.NewRing(ringSize); err != nil {
		return err
	}
	if c.feed, err = c.in.Producer(); err != nil {
		return err
	}
	c.drain, err = c.out.Consumer()
	return err
}

func (c *crew) start(ctx context.Context, n *node, mem *arena.Arena, slice *os.File) error {
	theirs := append(c.in.ReaderFiles(), c.out.WriterFiles()...)
	files := append(append([]*os.File{mem.File()}, theirs...), slice)
	within := 20 * time.Second
	if by, ok := ctx.Deadline(); ok {
		within = time.Until(by)
	}
	w, err := worker.Start(ctx, worker.Spec{
		Name: workerName, Binary: n.cfg.Binary, Engine: n.cfg.Engine, Files: files, Env: n.cfg.workerEnv,
		Nice: worker.DefaultNice, Boot: within, Grace: grace, LogLevel: logWarnings, Log: n.cfg.Log,
	})
	for _, f := range theirs { // so that the end of the worker is the end of its pipes
		_ = f.Close()
	}
	c.worker = w
	return err
}

// prove sends bytes through both rings and the worker, each coming back turned,
// and has the engine run a forward.
func (c *crew) prove(ctx context.Context, mem *arena.Arena) error {
	sent := make([]byte, wire.EchoSize)
	if _, err := rand.Read(sent); err != nil {
		return fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if err := c.feed.Write(ctx, sent); err != nil {
		return err
	}
	_, err := c.worker.Call(ctx, wire.Request{Op: wire.OpAttach, Attach: &wire.Attach{
		ArenaFD: fdArena, ArenaSize: mem.Size(), Echo: true,
		In: ringEnd(c.in, fdInWait, fdInRing), Out: ringEnd(c.out, fdOutWait, fdOutRing),
	}}, nil)
	if err != nil {
		return err
	}
	got := make([]byte, len(sent))
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the answer was written before the reply
	defer cancel()
	if _, err := io.ReadFull(c.drain.Reader(ctx), got); err != nil {
		return fault.New(fault.NodeEchoBroken, workerName, "what", "nothing came back").Because(err)
	}
	if wire.Echo(got); string(got) != string(sent) {
		return fault.New(fault.NodeEchoBroken, workerName, "what", "other bytes came back")
	}
	_, err = c.worker.Call(ctx, wire.Request{Op: wire.OpTrial, Trial: &wire.Trial{Path: fmt.Sprintf("/proc/self/fd/%d", fdTrial)}}, nil)
	return err
}

// cause is why the worker is gone, where err is only how that was noticed.
func (c *crew) cause(err error) error {
	if !errors.Is(err, fault.ArenaRingClosed) && !errors.Is(err, fault.NodeEchoBroken) {
		return err
	}
	select {
	case <-c.worker.Done():
	case <-time.After(causeWithin):
		return err
	}
	if f := c.worker.Exit(); f != nil {
		return f
	}
	return err
}

// causeWithin is how long a worker's death may be noticed after its ring closed.
const causeWithin = 2 * time.Second

// watch tells what the worker says of itself unasked, and its end.
func (c *crew) watch(n *node) {
	for f := range c.worker.Faults() {
		n.tell(crewFaulted{crew: c, why: f})
	}
	<-c.worker.Done()
	n.tell(crewFaulted{crew: c, why: c.worker.Exit(), gone: true})
}

// detach lets go of this process's ends of the rings.
func (c *crew) detach() {
	if c.feed != nil {
		_ = c.feed.Detach() // only the ring's own bookkeeping can fail
	}
	if c.drain != nil {
		_ = c.drain.Detach()
	}
}

// stop ends the worker; nil means that it has been reaped.
func (c *crew) stop(ctx context.Context) error {
	if c.worker == nil {
		return nil
	}
	err := c.worker.Stop(ctx)
	if errors.Is(err, fault.WorkerCallOverdue) {
		return err
	}
	return nil // however it ended, it is gone
}

// release gives the rings' memory back: this process's ends are detached, and
// the worker has been reaped.
func (c *crew) release() error {
	var errs []error
	for _, r := range []*arena.Ring{c.in, c.out} {
		if r == nil {
			continue
		}
		dead := arena.ConsumerEnd
		if r == c.out {
			dead = arena.ProducerEnd
		}
		if err := r.Lease().Release(dead); err != nil && !errors.Is(err, fault.ArenaLeaseReleased) {
			errs = append(errs, err)
		}
		r.CloseBells()
	}
	return errors.Join(errs...)
}

// end does all of it.
func (c *crew) end() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	c.detach()
	if c.stop(ctx) == nil {
		_ = c.release() // the arena that held them ends next, or takes the blame
	}
}

// owes reports whether the worker has taken less than came in.
func (c *crew) owes() bool {
	k := c.in.Lease().Counters()
	return int64(k.RecordsWritten-k.RecordsRead) > 0 // a writer may be stopped before its commit
}

// ringEnd tells a child where its end is.
func ringEnd(r *arena.Ring, wait, bell int) wire.RingEnd {
	p := r.Lease().Place()
	return wire.RingEnd{Ring: p.Ring, Offset: p.Offset, Capacity: p.Capacity, WaitFD: wait, RingFD: bell}
}

// pathOf is the path by which the worker opens a file of this process, which
// outlives the name of the file and whatever takes its place.
func pathOf(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

func deviceOf(devices []wire.Device) string {
	var names []string
	for _, d := range devices {
		names = append(names, d.Description)
	}
	return strings.Join(names, ", ")
}
