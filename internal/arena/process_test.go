//go:build unix

package arena

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/internal/fault"
)

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob("/dev/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// Random blocks, smaller and larger than the ring, through another process and
// back: both directions sleep, wrap and overlap.
func TestAnotherProcessRelaysEveryBlock(t *testing.T) {
	before := descriptors(t)
	a, err := Create(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for capacity, blocks := range map[int]uint64{64: 300, 4096: 300, 1 << 17: 60} {
		c := spawn(t, a, capacity)
		sent := make(chan []byte, 4096)
		wrote := after(func() error {
			defer close(sent)
			r := rand.New(rand.NewPCG(blocks, 1))
			for range blocks {
				b := newBlock(r, r.IntN(3*capacity))
				sent <- b
				if err := c.to.Write(context.Background(), b); err != nil {
					return err
				}
				c.to.Commit()
			}
			c.to.CloseWrite()
			return nil
		})
		from := c.from.Reader(t.Context())
		for want := range sent {
			got, err := readBlock(from)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("capacity %d: a block of %d bytes came back as %d, %v", capacity, len(want), len(got), err)
			}
			c.from.Done()
		}
		if _, err := readBlock(from); err != io.EOF {
			t.Fatalf("behind the last block: %v", err)
		}
		if err := result(t, wrote); err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, l := range []*Lease{c.in, c.out} {
			if n := l.Counters(); n.RecordsWritten != blocks || n.RecordsRead != blocks || n.Written != n.Read {
				t.Errorf("capacity %d: %+v", capacity, n)
			}
		}
		c.leave(t, false)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := descriptors(t); got != before {
		t.Errorf("%d descriptors before, %d after", before, got)
	}
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestKillingAnIdlePeerEndsTheReader(t *testing.T) {
	a := newArena(t, 1<<20)
	c := spawn(t, a, 4096)
	ping(t, c)
	read := after(func() error { _, err := c.from.Read(context.Background(), make([]byte, 1)); return err })
	asleep(t, c.from.end)
	c.kill(t)
	wantFault(t, result(t, read), fault.ArenaRingClosed)
}

// ping proves that the child is there and has attached.
func ping(t *testing.T, c *child) {
	t.Helper()
	b := newBlock(rand.New(rand.NewPCG(1, 1)), 20)
	if err := c.to.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got, err := readBlock(c.from.Reader(t.Context())); err != nil || !bytes.Equal(got, b) {
		t.Fatal(got, err)
	}
}

func TestKillingAPeerBeforeItAttachesEndsTheReader(t *testing.T) {
	a := newArena(t, 1<<20)
	c := spawn(t, a, 4096)
	c.kill(t)
	_, err := c.from.Read(context.Background(), make([]byte, 1))
	wantFault(t, err, fault.ArenaRingClosed)
	err = c.to.Write(context.Background(), make([]byte, 2*4096))
	wantFault(t, err, fault.ArenaRingClosed)
}

// The child sleeps on a full ring, this process on the other, when it is killed:
// the writer ends, and the reader gets every byte that was published.
func TestKillingAPeerThatIsBlockedEndsTheWriter(t *testing.T) {
	a := newArena(t, 1<<20)
	c := spawn(t, a, 4096)
	b := newBlock(rand.New(rand.NewPCG(2, 2)), 40_000)
	wrote := after(func() error {
		for {
			if err := c.to.Write(context.Background(), b); err != nil {
				return err
			}
		}
	})
	eventually(t, "both rings full", func() bool {
		in, out := c.in.Counters(), c.out.Counters()
		return in.Written-in.Read == 4096 && out.Written-out.Read == 4096
	})
	asleep(t, c.to.end)
	c.kill(t)
	wantFault(t, result(t, wrote), fault.ArenaRingClosed)
	got, err := io.ReadAll(c.from.Reader(context.Background()))
	wantFault(t, err, fault.ArenaRingClosed)
	if !bytes.Equal(got, b[:4096]) {
		t.Errorf("%d bytes were read of the 4096 published, or others", len(got))
	}
}

// Killed anywhere, again and again: both ends of the survivor end with
// ring_closed, every whole block that came is right, and the ranges serve the
// next child.
func TestKillingAPeerAnywhere(t *testing.T) {
	before := descriptors(t)
	a, err := Create(1 << 18)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	for range 12 {
		c := spawn(t, a, 64<<r.IntN(9))
		blocks := r.IntN(200)
		wrote := after(func() error {
			r := rand.New(rand.NewPCG(4, 4))
			for {
				if err := c.to.Write(context.Background(), newBlock(r, r.IntN(9000))); err != nil {
					return err
				}
			}
		})
		from := c.from.Reader(context.Background())
		for i := 0; ; i++ {
			if i == blocks {
				c.kill(t)
			}
			_, err := readBlock(from)
			if err != nil {
				wantFault(t, err, fault.ArenaRingClosed)
				break
			}
		}
		wantFault(t, result(t, wrote), fault.ArenaRingClosed)
		wantFault(t, c.in.Release(), fault.ArenaLeaseHeld)
		c.reap()
		c.leave(t, true)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := descriptors(t); got != before {
		t.Errorf("%d descriptors before, %d after", before, got)
	}
}

// A stopped peer is no dead one: the wait ends by its context alone, and goes on
// once the peer does.
func TestAStoppedPeerIsWaitedForUntilTheContextEnds(t *testing.T) {
	a := newArena(t, 1<<20)
	c := spawn(t, a, 4096)
	ping(t, c)
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b := newBlock(rand.New(rand.NewPCG(5, 5)), 100)
	if err := c.to.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.from.Read(ctx, make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if n := c.in.Counters(); n.Written == n.Read {
		t.Errorf("the counters do not show that the child owes: %+v", n)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got, err := readBlock(c.from.Reader(t.Context())); err != nil || !bytes.Equal(got, b) {
		t.Fatal(got, err)
	}
}

// The other way round: a child whose parent lets go ends by itself.
func TestAChildEndsWhenItsParentLetsGo(t *testing.T) {
	a := newArena(t, 1<<20)
	c := spawn(t, a, 4096)
	ping(t, c)
	if err := errors.Join(c.to.Detach(), c.from.Detach()); err != nil {
		t.Fatal(err)
	}
	ended := after(c.cmd.Wait)
	if err := result(t, ended); err == nil {
		t.Error("it took the loss of its parent for the end of the stream")
	}
}
