package arena

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"muster/internal/fault"
)

// Doorbell makes one doorbell: wait is kept by the end that sleeps, ring by the
// end that wakes it. Where one goes to a child, this process must close its own
// copy after the spawn: the end of file by which the death of a peer is noticed
// comes when the last copy is closed. A ring needs two doorbells, one a
// direction. Faults: arena.doorbell_refused, platform.unsupported.
func Doorbell() (wait, ring *os.File, err error) {
	if err := supported(); err != nil {
		return nil, nil, err
	}
	if wait, ring, err = os.Pipe(); err != nil {
		return nil, nil, fault.New(fault.ArenaBellRefused, component, "what", "no pipe was given").Because(err)
	}
	return wait, ring, nil
}

// OpenDoorbell wraps an inherited descriptor of a doorbell, so that a wait on it
// can be cancelled and blocks no thread. Faults: arena.doorbell_refused,
// platform.unsupported.
func OpenDoorbell(fd uintptr) (*os.File, error) {
	if err := setNonblock(fd); err != nil {
		return nil, fault.New(fault.ArenaBellRefused, component, "what", fmt.Sprintf("descriptor %d is not usable", fd)).Because(err)
	}
	return os.NewFile(fd, fmt.Sprintf("doorbell %d", fd)), nil
}

// bell is the pair of doorbells of one end.
type bell struct {
	waitFile *os.File
	ringFile *os.File
	raw      syscall.RawConn // of ringFile
	rang     bool            // result of the last ringOnce
	once     func(fd uintptr) bool
	bytes    [64]byte // where rings are read to; what they are does not matter
}

// newBell checks that waits can be cancelled. Both files are made non-blocking:
// passing one to a child makes it blocking again, for everybody who has it.
func newBell(wait, ring *os.File) (*bell, error) {
	b := &bell{waitFile: wait, ringFile: ring}
	b.once = func(fd uintptr) bool {
		b.rang = ringOnce(fd)
		return true
	}
	refuse := func(what string, err error) (*bell, error) {
		return nil, fault.New(fault.ArenaBellRefused, component, "what", what).Because(err)
	}
	for _, f := range []*os.File{wait, ring} {
		raw, err := f.SyscallConn()
		if err != nil {
			return refuse(f.Name()+" is not usable", err)
		}
		var inner error
		if err := raw.Control(func(fd uintptr) { inner = setNonblock(fd) }); err != nil || inner != nil {
			return refuse(f.Name()+" cannot be made non-blocking", errors.Join(err, inner))
		}
		b.raw = raw
	}
	if err := wait.SetReadDeadline(time.Time{}); err != nil {
		return refuse(wait.Name()+" cannot be waited on with a deadline", err)
	}
	return b, nil
}

// wait sleeps until the bell is rung or ctx ends, whose cause it returns.
// io.EOF says that nobody can ring any more, os.ErrClosed that interrupt came.
func (b *bell) wait(ctx context.Context) error {
	if ctx.Done() != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		disarm := b.endWith(ctx)
		defer disarm()
	}
	_, err := b.waitFile.Read(b.bytes[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// endWith makes the end of ctx end a read. The function it returns takes that
// back; a deadline set at the last moment does not outlive it.
func (b *bell) endWith(ctx context.Context) (disarm func()) {
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = b.waitFile.SetReadDeadline(past) // fails only once the file is closed, which ends the read too
	})
	return func() {
		if !stop() {
			<-set
			_ = b.waitFile.SetReadDeadline(time.Time{}) // as above
		}
	}
}

// ring wakes the other end and reports whether anybody can hear it. It never
// blocks: in a full pipe there are bytes enough to wake any sleeper.
func (b *bell) ring() bool {
	b.rang = false
	err := b.raw.Write(b.once)
	return err == nil && b.rang
}

// interrupt wakes the own sleeper for good.
func (b *bell) interrupt() { _ = b.waitFile.Close() } // an error says that it was closed before

func (b *bell) close() error {
	b.interrupt()
	if err := b.ringFile.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
