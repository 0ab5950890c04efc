//go:build unix

package arena

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"muster/internal/fault"
)

func TestASleepingConsumerWakes(t *testing.T) {
	for name, c := range map[string]struct {
		wake func(*pair)
		err  error // nil: a byte is read
	}{
		"by a byte":               {func(p *pair) { _ = p.producer.Write(context.Background(), []byte{7}) }, nil},
		"by the end of stream":    {func(p *pair) { p.producer.CloseWrite() }, io.EOF},
		"by the producer leaving": {func(p *pair) { _ = p.producer.Detach() }, fault.ArenaRingClosed},
		"by a producer that died": {func(p *pair) { _ = p.producer.end.bell.ringFile.Close() }, fault.ArenaRingClosed},
		"by its own detach":       {func(p *pair) { _ = p.consumer.Detach() }, fault.ArenaEndClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 64)
			var n int
			read := after(func() (err error) {
				n, err = p.consumer.Read(context.Background(), make([]byte, 8))
				return err
			})
			asleep(t, p.consumer.end)
			c.wake(p)
			if err := result(t, read); !errors.Is(err, c.err) || (err == nil) != (n == 1) {
				t.Errorf("read %d bytes, %v; want %v", n, err, c.err)
			}
		})
	}
}

func TestASleepingProducerWakes(t *testing.T) {
	for name, c := range map[string]struct {
		wake func(*pair)
		err  error
	}{
		"by the byte that makes room": {func(p *pair) { _, _ = p.consumer.Read(context.Background(), make([]byte, 1)) }, nil},
		"by the consumer leaving":     {func(p *pair) { _ = p.consumer.Detach() }, fault.ArenaRingClosed},
		"by a consumer that died":     {func(p *pair) { _ = p.consumer.end.bell.ringFile.Close() }, fault.ArenaRingClosed},
		"by its own detach":           {func(p *pair) { _ = p.producer.Detach() }, fault.ArenaEndClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, 8)
			wrote := after(func() error { return p.producer.Write(context.Background(), make([]byte, 9)) })
			asleep(t, p.producer.end)
			c.wake(p)
			if err := result(t, wrote); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
		})
	}
}

// Close lets go of both ends in either order, so a sleeper is told that it was
// detached or that its peer has gone.
func TestTheArenasEndWakesItsSleepers(t *testing.T) {
	p, q := newPair(t, 8), newPair(t, 8)
	read := after(func() error { _, err := p.consumer.Read(context.Background(), make([]byte, 1)); return err })
	wrote := after(func() error { return q.producer.Write(context.Background(), make([]byte, 9)) })
	asleep(t, p.consumer.end)
	asleep(t, q.producer.end)
	for _, a := range []*Arena{p.arena, q.arena} {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []<-chan error{read, wrote} {
		if err := result(t, c); !errors.Is(err, fault.ArenaEndClosed) && !errors.Is(err, fault.ArenaRingClosed) {
			t.Errorf("got %v", err)
		}
	}
}

// A peer that dies between two steps of the protocol has done some of them and
// left the rest for ever. Each case is one such moment.
func TestAPeerThatDiesBetweenTwoSteps(t *testing.T) {
	take := func(e *end) { e.peer.asleep.Store(0) }
	publish := func(e *end) { e.own.cursor.Add(1) }
	finish := func(e *end) { e.own.state.Store(stateOf(e.ring, attached|finished)) }
	for name, c := range map[string]struct {
		did  []func(*end)
		read error // of the sleeping consumer
	}{
		"before it published":                   {nil, fault.ArenaRingClosed},
		"after it published":                    {[]func(*end){publish}, nil},
		"before it rang":                        {[]func(*end){publish, take}, nil},
		"before it rang for the stream's end":   {[]func(*end){finish, take}, io.EOF},
		"after it published and ended":          {[]func(*end){publish, finish}, nil},
		"before it rang for nothing we can see": {[]func(*end){take}, fault.ArenaRingClosed},
	} {
		t.Run("producer "+name, func(t *testing.T) {
			p := newPair(t, 8)
			read := after(func() error { _, err := p.consumer.Read(context.Background(), make([]byte, 1)); return err })
			asleep(t, p.consumer.end)
			for _, f := range c.did {
				f(p.producer.end)
			}
			die(t, p.producer.end)
			if err := result(t, read); !errors.Is(err, c.read) {
				t.Errorf("got %v, want %v", err, c.read)
			}
		})
	}
	for name, did := range map[string][]func(*end){
		"before it published": nil,
		"after it published":  {publish},
		"before it rang":      {publish, take},
	} {
		t.Run("consumer "+name, func(t *testing.T) {
			p := newPair(t, 8)
			wrote := after(func() error { return p.producer.Write(context.Background(), make([]byte, 10)) })
			asleep(t, p.producer.end)
			for _, f := range did {
				f(p.consumer.end)
			}
			die(t, p.consumer.end)
			wantFault(t, result(t, wrote), fault.ArenaRingClosed)
		})
	}
}

// die does to the doorbells what the kernel does at a process' death.
func die(t *testing.T, e *end) {
	t.Helper()
	if err := errors.Join(e.bell.ringFile.Close(), e.bell.waitFile.Close()); err != nil {
		t.Fatal(err)
	}
}

// What a dead producer published is still read, and its unfinished stream is
// no end of file.
func TestBytesOfADeadProducerAreRead(t *testing.T) {
	p := newPair(t, 64)
	if err := p.producer.Write(t.Context(), []byte("last")); err != nil {
		t.Fatal(err)
	}
	die(t, p.producer.end)
	got, err := io.ReadAll(p.consumer.Reader(t.Context()))
	wantFault(t, err, fault.ArenaRingClosed)
	if string(got) != "last" {
		t.Errorf("got %q", got)
	}
}

func TestACancelledWaitLosesNothing(t *testing.T) {
	p := newPair(t, 8)
	told := errors.New("told to stop")
	for range 20 {
		ctx, cancel := context.WithCancelCause(context.Background())
		read := after(func() error { _, err := p.consumer.Read(ctx, make([]byte, 8)); return err })
		asleep(t, p.consumer.end)
		cancel(told)
		if err := result(t, read); !errors.Is(err, told) {
			t.Fatalf("got %v", err)
		}
	}
	roundTrip(t, p, "x")
	if err := p.producer.Write(t.Context(), make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	wrote := after(func() error { return p.producer.Write(ctx, []byte{9}) })
	asleep(t, p.producer.end)
	cancel(told)
	if err := result(t, wrote); !errors.Is(err, told) {
		t.Fatalf("got %v", err)
	}
	if _, err := io.ReadFull(p.consumer.Reader(t.Context()), make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, p, "y")
}

// A cancelled Write that has put a part of its bytes leaves a stream which
// nobody may take for whole records.
func TestATornStreamTakesNothingMore(t *testing.T) {
	p := newPair(t, 8)
	ctx, cancel := context.WithCancel(context.Background())
	wrote := after(func() error { return p.producer.Write(ctx, make([]byte, 9)) })
	asleep(t, p.producer.end)
	cancel()
	if err := result(t, wrote); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wantFault(t, p.producer.Write(context.Background(), []byte{1}), fault.ArenaEndClosed)
	p.producer.CloseWrite()
	if err := p.producer.Detach(); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(p.consumer.Reader(t.Context()))
	wantFault(t, err, fault.ArenaRingClosed)
}

func roundTrip(t *testing.T, p *pair, s string) {
	t.Helper()
	wrote := after(func() error { return p.producer.Write(context.Background(), []byte(s)) })
	buf := make([]byte, len(s))
	if _, err := io.ReadFull(p.consumer.Reader(context.Background()), buf); err != nil || string(buf) != s {
		t.Fatalf("got %q, %v", buf, err)
	}
	if err := result(t, wrote); err != nil {
		t.Fatal(err)
	}
}

// Stale bytes wake sleepers in vain; a pipe full of them must neither block the
// waker nor keep the sleeper from going to sleep.
func TestAFullDoorbellBlocksNobody(t *testing.T) {
	p := newPair(t, 8)
	for _, e := range []*end{p.producer.end, p.consumer.end} {
		fill(t, e.bell)
	}
	for range 50 {
		roundTrip(t, p, "a record larger than the ring")
	}
	read := after(func() error { _, err := p.consumer.Read(context.Background(), make([]byte, 1)); return err })
	asleep(t, p.consumer.end)
	fill(t, p.producer.end.bell)
	if err := p.producer.Write(t.Context(), []byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := result(t, read); err != nil {
		t.Fatal(err)
	}
}

// fill writes to the pipe until it takes no more.
func fill(t *testing.T, b *bell) {
	t.Helper()
	var err error
	if e := b.raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = syscall.Write(int(fd), make([]byte, 4096))
		}
		return true
	}); e != nil || !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(e, err)
	}
}

// Every byte is a wake-up in both directions.
func TestNoWakeUpIsLost(t *testing.T) {
	p := newPair(t, 1)
	const turns = 20_000
	wrote := after(func() error {
		for i := range turns {
			if err := p.producer.Write(context.Background(), []byte{byte(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	read := after(func() error {
		var b [1]byte
		for i := range turns {
			if _, err := p.consumer.Read(context.Background(), b[:]); err != nil || b[0] != byte(i) {
				return errors.Join(err, errors.New("a byte is another or missing"))
			}
		}
		return nil
	})
	for _, c := range []<-chan error{wrote, read} {
		if err := result(t, c); err != nil {
			t.Fatal(err)
		}
	}
}

// Waits that are cancelled at any moment, again and again, while the other end
// goes on.
func TestCancelledWaitsBesideALivePeer(t *testing.T) {
	p := newPair(t, 4)
	const total = 5_000
	wrote := after(func() error {
		for i := range total {
			for {
				ctx, cancel := context.WithTimeout(context.Background(), 20_000)
				err := p.producer.Write(ctx, []byte{byte(i)})
				cancel()
				if err == nil {
					break
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					return err
				}
			}
		}
		return nil
	})
	var b [3]byte
	for got := 0; got < total; {
		ctx, cancel := context.WithTimeout(context.Background(), 10_000)
		n, err := p.consumer.Read(ctx, b[:])
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for i := range n {
			if b[i] != byte(got) {
				t.Fatalf("byte %d is %d", got, b[i])
			}
			got++
		}
	}
	if err := result(t, wrote); err != nil {
		t.Fatal(err)
	}
}
