//go:build unix

package arena

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"muster/internal/fault"
)

// pair is a ring with both its ends in this process.
type pair struct {
	arena    *Arena
	lease    *Lease
	producer *Producer
	consumer *Consumer
}

func newArena(t testing.TB, size int64) *Arena {
	t.Helper()
	a, err := Create(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// bells makes the doorbells of a ring: those of the producer, then those of
// the consumer.
func bells(t testing.TB) (pw, pr, cw, cr *os.File) {
	t.Helper()
	pw, cr, err := Doorbell()
	if err != nil {
		t.Fatal(err)
	}
	cw, pr, err = Doorbell()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{pw, pr, cw, cr} {
			f.Close()
		}
	})
	return pw, pr, cw, cr
}

func newPair(t testing.TB, capacity int) *pair {
	t.Helper()
	a := newArena(t, int64(capacity)+3*grain)
	l, err := a.Lease(capacity)
	if err != nil {
		t.Fatal(err)
	}
	return attachBoth(t, a, l)
}

func attachBoth(t testing.TB, a *Arena, l *Lease) *pair {
	t.Helper()
	pw, pr, cw, cr := bells(t)
	p, err := a.Producer(l.Place(), pw, pr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Consumer(l.Place(), cw, cr)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{arena: a, lease: l, producer: p, consumer: c}
}

func wantFault(t interface {
	Helper()
	Fatalf(string, ...any)
}, err error, code fault.Code,
) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// patience is how long a test waits for what must happen. It is never what is
// measured.
const patience = 20 * time.Second

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("never came: " + what)
		}
	}
}

// asleep waits until an end has set its flag, and so is asleep or about to be.
func asleep(t testing.TB, e *end) {
	t.Helper()
	eventually(t, "the "+e.which.String()+" asleep", func() bool { return e.own.asleep.Load() == 1 })
}

// result waits for what a goroutine of the test has to say.
func result[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it hangs")
		panic("unreachable")
	}
}

// after runs f in a goroutine and hands on its error.
func after(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// startAt sets both cursors of a ring that nobody has attached to.
func startAt(a *Arena, p Place, cursor uint64) {
	h := overlay[ringHeader](a.memory, p.Offset)
	h.ends[ProducerEnd].cursor.Store(cursor)
	h.ends[ConsumerEnd].cursor.Store(cursor)
}

// duplicate is another descriptor of the file, as a child gets one.
func duplicate(t testing.TB, f *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name())
}
