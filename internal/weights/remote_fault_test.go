//go:build linux || darwin

package weights

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"muster/internal/fault"
)

// frail is a stream that breaks after so many bytes written.
type frail struct {
	Stream
	left int
}

func (f *frail) Write(b []byte) (int, error) {
	if len(b) <= f.left {
		f.left -= len(b)
		return f.Stream.Write(b)
	}
	n, _ := f.Stream.Write(b[:f.left])
	f.Stream.Cancel(7)
	return n, io.ErrClosedPipe
}

func wantCode(t *testing.T, err error, code fault.Code) *fault.Fault {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	f := fault.From(err)
	if strings.Contains(f.Error()+f.Hint(), "{") {
		t.Errorf("what a person reads is not whole: %v; %s", f, f.Hint())
	}
	return f
}

// TestStreamsThatBreakCostNothingButTime cuts every stream somewhere: what has
// come is kept, and the rest asked for again.
func TestStreamsThatBreakCostNothingButTime(t *testing.T) {
	data := noise(3 << 20)
	for _, each := range []int{5, 1000, 100_000, 1<<20 + 3} {
		want := data[:min(len(data), 100*each)]
		lib := newLibrary(t, offering("r", bytes.NewReader(want), int64(len(want))))
		lib.through(func(s Stream) Stream { return &frail{s, each} })
		got := make([]byte, len(want))
		r := lib.remote("r", int64(len(want)))
		if n, err := r.Part(0).ReadAt(got, 0); err != nil || n != len(want) || !bytes.Equal(got, want) {
			t.Errorf("cut after %d bytes: %d bytes, %v", each, n, err)
		}
		if lib.streams() < 2 {
			t.Errorf("cut after %d bytes: it took one stream", each)
		}
	}
}

func TestASourceThatGivesNothingIsGivenUp(t *testing.T) {
	data := noise(100)
	lib := newLibrary(t, offering("r", bytes.NewReader(data), 100))
	lib.wrap = func(s Stream) Stream { return &frail{s, 3} } // not a whole segment's header
	_, err := lib.remote("r", 100).Part(0).ReadAt(make([]byte, 10), 40)
	f := wantCode(t, err, fault.WeightsFetchFailed)
	if f.Attr("at") != "40" || f.Attr("tries") != "3" || f.Cause == nil || lib.streams() != 3 {
		t.Errorf("after %d streams it says %v", lib.streams(), f)
	}
}

func TestASourceThatCannotBeReachedIsGivenUp(t *testing.T) {
	refused := fault.New("endpoint.peer_unreachable", "endpoint", "peer", "p", "address", "a", "waited", "3s")
	tries := 0
	r := NewRemote(t.Context(), func(context.Context) (Stream, error) { tries++; return nil, refused }, "r", []int64{100})
	r.patience = patienceOfTests
	defer r.Close()
	_, err := r.Part(0).ReadAt(make([]byte, 10), 0)
	if f := wantCode(t, err, fault.WeightsFetchFailed); !errors.Is(f, refused.Code) || tries != 3 {
		t.Errorf("after %d tries it says %v", tries, f)
	}
}

// mute is a stream whose writes wait until the test has ended.
type mute struct {
	Stream
	until <-chan struct{}
}

func (m mute) Write([]byte) (int, error) {
	<-m.until
	return 0, io.ErrClosedPipe
}

func TestASilentSourceIsGivenUp(t *testing.T) {
	data := noise(100)
	lib := newLibrary(t, offering("r", bytes.NewReader(data), 100))
	lib.through(func(s Stream) Stream { return mute{s, lib.ctx.Done()} })
	r := lib.remote("r", 100)
	r.patience.silent = 20 * time.Millisecond
	_, err := r.Part(0).ReadAt(make([]byte, 10), 0)
	wantCode(t, err, fault.WeightsFetchFailed)
}

// slow is a stream that gives a little at a time.
type slow struct{ Stream }

func (s slow) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		time.Sleep(time.Millisecond)
		n, err := s.Stream.Write(b[done:min(len(b), done+1<<10)])
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

func TestASlowSourceIsWaitedFor(t *testing.T) {
	data := noise(200 << 10)
	lib := newLibrary(t, offering("r", bytes.NewReader(data), int64(len(data))))
	lib.through(func(s Stream) Stream { return slow{s} })
	r := lib.remote("r", int64(len(data)))
	got := make([]byte, len(data))
	if _, err := r.Part(0).ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Error(err)
	}
	if lib.streams() != 1 {
		t.Errorf("it took %d streams", lib.streams())
	}
}

func TestWhatIsWrongWithTheSourceIsToldAtOnce(t *testing.T) {
	data := noise(1000)
	own := fault.New(fault.GGUFFileMissing, "gguf", "path", "/x")
	for name, c := range map[string]struct {
		lookup Lookup
		want   fault.Code
	}{
		"it is shorter than published": {offering("r", bytes.NewReader(data), 1000), fault.WeightsSourceTruncated},
		"it was cut meanwhile":         {offering("r", bytes.NewReader(data), 2000), fault.WeightsSourceTruncated},
		"its disk fails":               {offering("r", bad{}, 2000), fault.WeightsSourceUnreadable},
		"it is another revision":       {offering("other", bytes.NewReader(data), 2000), fault.WeightsRevisionUnknown},
		"it says so itself":            {func(string, int) (io.ReaderAt, int64, error) { return nil, 0, own }, fault.GGUFFileMissing},
	} {
		lib := newLibrary(t, c.lookup)
		n, err := lib.remote("r", 2000).Part(0).ReadAt(make([]byte, 2000), 0)
		wantCode(t, err, c.want)
		if n != 0 || lib.streams() != 1 {
			t.Errorf("%s: %d bytes over %d streams", name, n, lib.streams())
		}
	}
}

type bad struct{}

func (bad) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }

func TestReadingEndsWithItsContext(t *testing.T) {
	data := noise(100)
	for name, end := range map[string]func(r *Remote, stop func()){
		"its context": func(_ *Remote, stop func()) { stop() },
		"close":       func(r *Remote, _ func()) { r.Close() },
	} {
		lib := newLibrary(t, offering("r", bytes.NewReader(data), 100))
		var asked atomic.Bool
		lib.through(func(s Stream) Stream { asked.Store(true); return mute{s, lib.ctx.Done()} })
		ctx, stop := context.WithCancel(t.Context())
		r := NewRemote(ctx, lib.open, "r", []int64{100})
		ended := make(chan error, 1)
		go func() {
			_, err := r.Part(0).ReadAt(make([]byte, 10), 0)
			ended <- err
		}()
		for end := time.Now().Add(20 * time.Second); !asked.Load() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		end(r, stop)
		select {
		case err := <-ended:
			wantCode(t, err, fault.RunInterrupted)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it hangs", name)
		}
		stop()
		r.Close()
	}
}

// TestReadsFromEverywhere compares reads of three parts, by several goroutines
// and in every order, with the parts themselves.
func TestReadsFromEverywhere(t *testing.T) {
	parts := [][]byte{noise(300_000), noise(70_001), noise(1)}
	sizes := []int64{300_000, 70_001, 1}
	lib := newLibrary(t, func(_ string, part int) (io.ReaderAt, int64, error) {
		return bytes.NewReader(parts[part]), sizes[part], nil
	})
	r := lib.remote("r", sizes...)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			x := uint32(g + 1)
			for range 150 {
				x = x*1664525 + 1013904223
				part := int(x>>16) % 3
				offset := int64(x>>3) % (sizes[part] + 3)
				if x&7 == 0 {
					offset = 0
				}
				got, want := make([]byte, x>>8%9999), make([]byte, x>>8%9999)
				n, err := r.Part(part).ReadAt(got, offset)
				wantN, wantErr := bytes.NewReader(parts[part]).ReadAt(want, offset)
				if n != wantN || (err == io.EOF) != (wantErr == io.EOF) || !bytes.Equal(got, want) {
					t.Errorf("%d bytes at %d of part %d: %d, %v; want %d, %v", len(got), offset, part, n, err, wantN, wantErr)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestReadingInLineTakesOneStream: what follows is asked for ahead, in larger
// and larger blocks.
func TestReadingInLineTakesOneStream(t *testing.T) {
	data := noise(12 << 20)
	var asked atomic.Int64
	counting := func(string, int) (io.ReaderAt, int64, error) {
		asked.Add(1)
		return bytes.NewReader(data), int64(len(data)), nil
	}
	lib := newLibrary(t, counting)
	r := lib.remote("r", int64(len(data)))
	got, err := io.ReadAll(io.NewSectionReader(r.Part(0), 0, int64(len(data))))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if n := asked.Load(); lib.streams() != 1 || n > 16 {
		t.Errorf("%d requests over %d streams", n, lib.streams())
	}
	if cap(r.block) > mostBlock {
		t.Errorf("a block takes %d bytes", cap(r.block))
	}
}

// pair is a stream with its other end.
func pair(t testing.TB) (near, far tcp) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return tcp{a.(*net.TCPConn)}, tcp{b.(*net.TCPConn)}
}

// FuzzServeReads sends arbitrary requests: each is answered with the bytes it
// asks for or with one fault, and never with more.
func FuzzServeReads(f *testing.F) {
	f.Add(request{"r", span{0, 10, 90}}.append(nil))
	f.Add(request{"r", span{0, 10, 91}}.append(request{"r", span{0, 0, 1}}.append(nil)))
	f.Add(request{"x", span{3, 10, 91}}.append(nil)[:20])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	data := noise(100)
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := pair(t)
		ended := make(chan error, 1)
		go func() { ended <- ServeReads(t.Context(), far, offering("r", bytes.NewReader(data), 100)) }()
		go func() {
			_, _ = near.Write(b)
			_ = near.CloseWrite()
		}()
		got, readErr := io.ReadAll(near)
		err := <-ended
		in := bytes.NewReader(got)
		for from := bytes.NewReader(b); ; {
			q, reqErr := readRequest(from)
			if reqErr != nil {
				break
			}
			n, segErr := readSegment(in, q.n)
			if segErr != nil {
				break // told, or cut where the serving side ended the stream with bytes unread
			}
			have := make([]byte, n)
			if _, err := io.ReadFull(in, have); err != nil {
				break
			}
			if n != q.n || !bytes.Equal(have, data[q.offset:][:n]) {
				t.Fatalf("%+v was answered with %d bytes", q, n)
			}
		}
		if err == nil && (in.Len() > 0 || readErr != nil) {
			t.Fatalf("%d bytes are left, %v", in.Len(), readErr)
		}
	})
}

// FuzzReply answers with arbitrary bytes: a fault comes out, or the bytes that
// were owed.
func FuzzReply(f *testing.F) {
	f.Add(append([]byte{10, 0, 0, 0}, noise(10)...))
	f.Add(append([]byte{4, 0, 0, 0, 1, 2, 3, 4, 6, 0, 0, 0}, noise(6)...))
	f.Add(appendFault(nil, fault.New(fault.WeightsRevisionUnknown, "weights", "revision", "r")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := pair(t)
		go func() {
			_, _ = far.Write(b)
			_ = far.CloseWrite()
		}()
		opened := false
		r := NewRemote(t.Context(), func(context.Context) (Stream, error) {
			if opened {
				return nil, io.ErrClosedPipe
			}
			opened = true
			return near, nil
		}, "r", []int64{10})
		r.patience = patience{open: time.Second, silent: 10 * time.Second, tries: 1}
		defer r.Close()
		got := make([]byte, 10)
		n, err := r.Part(0).ReadAt(got, 0)
		if err == nil && n != 10 || err != nil && n != 0 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		var known *fault.Fault
		if err != nil && !errors.As(err, &known) {
			t.Fatalf("it is no fault: %v", err)
		}
	})
}
