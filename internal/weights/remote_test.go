//go:build linux || darwin

package weights

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
)

// tcp is a stream over TCP, which has all that a Stream has.
type tcp struct{ *net.TCPConn }

func (c tcp) Cancel(uint32) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// library serves reads of one revision on loopback.
type library struct {
	t        testing.TB
	listener net.Listener
	ctx      context.Context
	lookup   Lookup

	mu     sync.Mutex
	wrap   func(Stream) Stream // around the serving end of each stream
	opened int
	group  sync.WaitGroup
}

func newLibrary(t testing.TB, lookup Lookup) *library {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	lib := &library{t: t, listener: l, ctx: ctx, lookup: lookup, wrap: func(s Stream) Stream { return s }}
	lib.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			lib.group.Go(func() { lib.serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		lib.group.Wait()
	})
	return lib
}

func (l *library) serve(c *net.TCPConn) {
	defer c.Close()
	l.mu.Lock()
	wrap := l.wrap
	l.mu.Unlock()
	_ = ServeReads(l.ctx, wrap(tcp{c}), l.lookup) // what the reader is told is what tests look at
}

// through puts something around the serving end of each stream.
func (l *library) through(wrap func(Stream) Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrap = wrap
}

func (l *library) open(ctx context.Context) (Stream, error) {
	l.mu.Lock()
	l.opened++
	l.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return tcp{c.(*net.TCPConn)}, nil
}

func (l *library) streams() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

// remote reads from the library, with little patience.
func (l *library) remote(revision string, sizes ...int64) *Remote {
	r := NewRemote(l.ctx, l.open, revision, sizes)
	r.patience = patienceOfTests
	l.t.Cleanup(r.Close)
	return r
}

var patienceOfTests = patience{open: 10 * time.Second, silent: 10 * time.Second, tries: 3, pause: time.Millisecond}

// offering looks one revision of one part up.
func offering(revision string, in io.ReaderAt, size int64) Lookup {
	return func(r string, part int) (io.ReaderAt, int64, error) {
		if r != revision || part != 0 {
			return nil, 0, errors.New("nobody published it")
		}
		return in, size, nil
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// TestSliceOverARemoteIsTheSame plans and writes a slice of a model that lies
// elsewhere.
func TestSliceOverARemoteIsTheSame(t *testing.T) {
	s := newSubject(t)
	p := s.file.Parts[0]
	lib := newLibrary(t, offering(s.man.Revision, p.File, p.Size))
	f, err := gguf.Read(lib.remote(s.man.Revision, p.Size).Part(0), p.Size, "there")
	if err != nil {
		t.Fatal(err)
	}
	if !s.man.Describes(f) {
		t.Error("the manifest does not describe what was read")
	}
	m, err := gguf.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := gguf.PlanSlice(f, m, s.plan.Range)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := plan.Write(t.Context(), &got, f, s.man, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), s.want) || plan.Key(s.man) != s.plan.Key(s.man) {
		t.Error("the slice's bytes are others")
	}
	if n := lib.streams(); n > 8 {
		t.Errorf("it took %d streams", n)
	}
}

func TestWrongRevisionIsToldAtOnce(t *testing.T) {
	data := noise(1 << 20)
	lib := newLibrary(t, offering("good", bytes.NewReader(data), 1<<20))
	_, err := lib.remote("other", 1<<20).Part(0).ReadAt(make([]byte, 10), 0)
	if !errors.Is(err, fault.WeightsRevisionUnknown) || fault.From(err).Attr("revision") != "other" {
		t.Errorf("got %v", err)
	}
	if lib.streams() != 1 {
		t.Errorf("it was asked %d times", lib.streams())
	}
}
