package edge

import (
	"io"
	"time"
)

// intake reads ahead from a ring or a stream, and measures the time in which
// it waits for the rest of a record.
type intake struct {
	from   io.Reader
	guard  *guard
	within time.Duration
	meter  *Meter

	buf  []byte // buf[r:w] was read and not used
	r, w int

	inside bool          // a record has begun
	got    int           // bytes of it that came
	left   time.Duration // for the rest of it
	waited time.Duration // of that, used up
}

func newIntake(from io.Reader, g *guard, cfg Config) *intake {
	return &intake{from: from, guard: g, within: cfg.Within, meter: cfg.Meter, buf: make([]byte, window)}
}

// held are the bytes that were read and not used.
func (in *intake) held() []byte { return in.buf[in.r:in.w] }

// use drops n of the bytes held.
func (in *intake) use(n int) {
	in.r += n
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// start waits for the first byte of a record, for as long as it takes.
func (in *intake) start() error {
	in.inside, in.got, in.waited, in.left = false, 0, 0, in.within
	in.meter.enter(Idle)
	err := in.need(1)
	if err == nil {
		in.inside = true
		in.got = len(in.held())
		in.meter.enter(Inside)
	}
	return err
}

// grant gives a record of size bytes its time.
func (in *intake) grant(size int) {
	in.left = in.within + time.Duration(size)*time.Second/slowRate
}

// need reads until n bytes are held, as one piece. io.ErrUnexpectedEOF says
// that some of them came, io.EOF that none did.
func (in *intake) need(n int) error {
	for in.w-in.r < n {
		in.makeRoom(n)
		got, err := in.read(in.buf[in.w:])
		in.w += got
		if err != nil && in.w-in.r < n {
			if err == io.EOF && in.w > in.r { //nolint:errorlint // readers give io.EOF itself
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// makeRoom moves what is held to the front where n bytes do not fit behind it,
// into a larger buffer where it must.
func (in *intake) makeRoom(n int) {
	if in.r+n <= len(in.buf) && in.w < len(in.buf) {
		return
	}
	buf := in.buf
	if n > len(buf) {
		buf = make([]byte, n)
	}
	in.w = copy(buf, in.held())
	in.buf, in.r = buf, 0
}

// read reads what there is. Inside a record, the guard ends when that takes
// too long.
func (in *intake) read(b []byte) (int, error) {
	n, err := in.timed(b)
	in.got += n
	if n > 0 {
		return n, nil // a reader that has failed says so again
	}
	return 0, err
}

func (in *intake) timed(b []byte) (int, error) {
	if !in.inside {
		return in.from.Read(b)
	}
	start := time.Now()
	in.guard.timer.Reset(min(in.within, in.left-in.waited))
	n, err := in.from.Read(b)
	in.guard.timer.Stop()
	in.waited += time.Since(start)
	return n, err
}

// Read implements io.Reader, for the codec.
func (in *intake) Read(b []byte) (int, error) {
	if in.r == in.w {
		if len(b) >= len(in.buf) {
			return in.read(b)
		}
		if err := in.need(1); err != nil {
			return 0, err
		}
	}
	n := copy(b, in.held())
	in.use(n)
	return n, nil
}
