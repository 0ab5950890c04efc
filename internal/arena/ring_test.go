//go:build unix

package arena

import (
	"bytes"
	"context"
	"io"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
)

func TestBytesFlowThroughARingSmallerThanThem(t *testing.T) {
	for _, capacity := range []int{1, 2, 64, 4096, 1 << 20} {
		p := newPair(t, capacity)
		sent := make([]byte, 3*capacity+17)
		for i := range sent {
			sent[i] = byte(i * 31)
		}
		failed := make(chan error, 1)
		go func() {
			err := p.producer.Write(context.Background(), sent)
			p.producer.CloseWrite()
			failed <- err
		}()
		got, err := io.ReadAll(p.consumer.Reader(context.Background()))
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("capacity %d: %d of %d bytes came, %v", capacity, len(got), len(sent), err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsAreCountedFromOutside(t *testing.T) {
	p := newPair(t, 64)
	ctx := t.Context()
	if err := p.producer.Write(ctx, make([]byte, 40)); err != nil {
		t.Fatal(err)
	}
	p.producer.Commit()
	if n, err := p.consumer.Read(ctx, make([]byte, 30)); n != 30 || err != nil {
		t.Fatal(n, err)
	}
	if got, want := p.lease.Counters(), (Counters{Written: 40, Read: 30, RecordsWritten: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n, err := p.consumer.Read(ctx, make([]byte, 30)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	p.consumer.Done()
	if got, want := p.lease.Counters(), (Counters{Written: 40, Read: 40, RecordsWritten: 1, RecordsRead: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAConsumerThatComesLateReadsEverything(t *testing.T) {
	a := newArena(t, 1<<16)
	l, err := a.Lease(64)
	if err != nil {
		t.Fatal(err)
	}
	pw, pr, cw, cr := bells(t)
	p, err := a.Producer(l.Place(), pw, pr)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), []byte("early")); err != nil {
		t.Fatal(err)
	}
	p.CloseWrite()
	if err := p.Detach(); err != nil {
		t.Fatal(err)
	}
	c, err := a.Consumer(l.Place(), cw, cr)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c.Reader(t.Context()))
	if err != nil || string(got) != "early" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnAbandonedStreamIsReadToItsLastByteAndIsNoEnd(t *testing.T) {
	p := newPair(t, 64)
	if err := p.producer.Write(t.Context(), []byte("half a rec")); err != nil {
		t.Fatal(err)
	}
	if err := p.producer.Detach(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p.consumer.Reader(t.Context()))
	wantFault(t, err, fault.ArenaRingClosed)
	if string(got) != "half a rec" {
		t.Errorf("got %q", got)
	}
}

func TestAnEndedStreamStaysEnded(t *testing.T) {
	p := newPair(t, 64)
	p.producer.CloseWrite()
	p.producer.CloseWrite()
	for range 3 {
		if n, err := p.consumer.Read(t.Context(), make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
	}
	wantFault(t, p.producer.Write(t.Context(), []byte{1}), fault.ArenaEndClosed)
}

func TestNothingIsWrittenToAConsumerThatLetGo(t *testing.T) {
	p := newPair(t, 64)
	if err := p.consumer.Detach(); err != nil {
		t.Fatal(err)
	}
	wantFault(t, p.producer.Write(t.Context(), []byte{1}), fault.ArenaRingClosed)
	wantFault(t, p.producer.Write(t.Context(), []byte{1}), fault.ArenaRingClosed)
}

// drawStart draws a cursor to begin at: anywhere, with the edges of the ring
// and of 64 bits drawn often.
func drawStart(t *rapid.T, capacity uint64) uint64 {
	near := rapid.SampledFrom([]uint64{0, capacity, 1 << 32, 1 << 63, -capacity}).Draw(t, "edge")
	return near + uint64(rapid.Int64Range(-int64(capacity)-1, int64(capacity)+1).Draw(t, "from the edge"))
}

// The ring against the plainest queue there is: each step writes or reads a
// drawn number of bytes, from every starting cursor.
func TestTheRingIsAQueue(t *testing.T) {
	a := newArena(t, 1<<18)
	rapid.Check(t, func(rt *rapid.T) {
		l, err := a.Lease(1 << rapid.IntRange(0, 13).Draw(rt, "capacity"))
		if err != nil {
			rt.Fatal(err)
		}
		capacity := int(l.Place().Capacity)
		startAt(a, l.Place(), drawStart(rt, uint64(capacity)))
		p := attachBoth(t, a, l)
		ctx := t.Context()
		var queue []byte
		next := byte(0)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				b := make([]byte, rapid.IntRange(0, capacity-len(queue)).Draw(rt, "bytes"))
				for i := range b {
					b[i], next = next, next+1
				}
				if err := p.producer.Write(ctx, b); err != nil {
					rt.Fatal(err)
				}
				queue = append(queue, b...)
			},
			"read": func(rt *rapid.T) {
				if len(queue) == 0 {
					rt.Skip("it is empty")
				}
				b := make([]byte, rapid.IntRange(1, capacity+1).Draw(rt, "bytes"))
				n, err := p.consumer.Read(ctx, b)
				if err != nil || n == 0 || !bytes.Equal(b[:n], queue[:n]) {
					rt.Fatalf("read %v, %v; the queue holds %v", b[:n], err, queue)
				}
				queue = queue[n:]
			},
			"": func(rt *rapid.T) {
				if c := l.Counters(); c.Written-c.Read != uint64(len(queue)) {
					rt.Fatalf("counters %+v, the queue holds %d", c, len(queue))
				}
			},
		})
		p.producer.CloseWrite()
		rest, err := io.ReadAll(p.consumer.Reader(ctx))
		if err != nil || !bytes.Equal(rest, queue) {
			rt.Fatalf("the rest is %v, %v; the queue holds %v", rest, err, queue)
		}
		letGo(rt, p)
	})
}

// letGo detaches both ends and releases the lease.
func letGo(t interface{ Fatal(...any) }, p *pair) {
	for _, f := range []func() error{p.producer.Detach, p.consumer.Detach, func() error { return p.lease.Release() }} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
}

// Both ends at once, with drawn sizes of writes and reads, so that both fall
// asleep and wake in every order.
func TestBothEndsAtOnceLoseNothing(t *testing.T) {
	a := newArena(t, 1<<18)
	rapid.Check(t, func(rt *rapid.T) {
		l, err := a.Lease(1 << rapid.IntRange(0, 7).Draw(rt, "capacity"))
		if err != nil {
			rt.Fatal(err)
		}
		startAt(a, l.Place(), drawStart(rt, l.Place().Capacity))
		p := attachBoth(t, a, l)
		writes := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 40).Draw(rt, "writes")
		bite := rapid.IntRange(1, 200).Draw(rt, "bite")
		var sent []byte
		for i, n := range writes {
			sent = append(sent, bytes.Repeat([]byte{byte(i)}, n)...)
		}
		wrote := after(func() error {
			rest := sent
			for _, n := range writes {
				if err := p.producer.Write(context.Background(), rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			p.producer.CloseWrite()
			return nil
		})
		var got []byte
		buf := make([]byte, bite)
		for {
			n, err := p.consumer.Read(context.Background(), buf)
			got = append(got, buf[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		if err := result(t, wrote); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(got, sent) {
			rt.Fatalf("%d bytes came of %d, or others", len(got), len(sent))
		}
		letGo(rt, p)
	})
}

// A ring's files, handed over in their order, make the other end of it.
func TestARingIsHandedOverByItsFiles(t *testing.T) {
	a := newArena(t, SizeFor(64, 64))
	for name, attach := range map[string]func(*Ring) (*Producer, *Consumer, error, error){
		"to a reader": func(r *Ring) (*Producer, *Consumer, error, error) {
			p, perr := r.Producer()
			f := r.ReaderFiles()
			c, cerr := a.Consumer(r.Lease().Place(), f[0], f[1])
			return p, c, perr, cerr
		},
		"to a writer": func(r *Ring) (*Producer, *Consumer, error, error) {
			c, cerr := r.Consumer()
			f := r.WriterFiles()
			p, perr := a.Producer(r.Lease().Place(), f[0], f[1])
			return p, c, perr, cerr
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := a.NewRing(64)
			if err != nil {
				t.Fatal(err)
			}
			p, c, perr, cerr := attach(r)
			if perr != nil || cerr != nil {
				t.Fatal(perr, cerr)
			}
			sent := bytes.Repeat([]byte("0123456789"), 50) // longer than the ring: each end waits for the other
			failed := make(chan error, 1)
			go func() { failed <- p.Write(context.Background(), sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(c.Reader(context.Background()), got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%q came (%v)", got, err)
			}
			if err := <-failed; err != nil {
				t.Error(err)
			}
			for _, err := range []error{p.Detach(), c.Detach(), r.Lease().Release()} {
				if err != nil {
					t.Error(err)
				}
			}
			r.CloseBells()
		})
	}
	if _, err := a.NewRing(1 << 30); err == nil {
		t.Error("a ring larger than the arena was leased")
	}
}
