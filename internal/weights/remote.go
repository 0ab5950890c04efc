package weights

import (
	"context"
	"io"
	"sync"
	"time"

	"muster/internal/fault"
)

// Remote reads the parts of a model that another node has.
//
//	ReadAt ──► in the block? copied
//	             no ──► asked for ahead? its answer is read
//	                      no ──► a block is asked for, the larger the longer
//	                             reads have been one behind the other
//	           a stream that breaks: a new one, on from the last byte that came
//
// One block of at most 4 MiB is held, and one more may be on its way. Parts may
// be read from several goroutines; they take turns.
type Remote struct {
	ctx      context.Context // ends all reading
	cancel   context.CancelFunc
	open     func(ctx context.Context) (Stream, error)
	revision string
	sizes    []int64

	mu     sync.Mutex
	stream Stream
	disarm func() bool // of the end of ctx that would cancel the stream
	at     span        // of block
	block  []byte
	ahead  span // asked for on stream and not read; n is 0 where nothing is

	patience patience
}

// patience is how long a Remote waits.
type patience struct {
	open   time.Duration // for a stream
	silent time.Duration // for a byte of an answer
	tries  int           // streams in a row without a byte
	pause  time.Duration // before the second of them, doubled for each more
}

var defaultPatience = patience{open: 5 * time.Second, silent: 5 * time.Second, tries: 4, pause: 100 * time.Millisecond}

const leastBlock = 64 << 10

// NewRemote reads parts of so many bytes of a revision, through streams that
// open gives. Reading ends with ctx or Close.
func NewRemote(ctx context.Context, open func(ctx context.Context) (Stream, error), revision string, sizes []int64) *Remote {
	r := &Remote{open: open, revision: revision, sizes: sizes, patience: defaultPatience}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Close ends reading and the stream.
func (r *Remote) Close() {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
	r.block = nil
}

// Part is part i as a reader. Its errors are io.EOF at the part's end and
// faults: weights.fetch_failed, run.interrupted, and what the serving side
// said.
func (r *Remote) Part(i int) io.ReaderAt { return remotePart{r, i} }

type remotePart struct {
	r *Remote
	i int
}

// ReadAt implements io.ReaderAt.
func (p remotePart) ReadAt(b []byte, offset int64) (int, error) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	size := p.r.sizes[p.i]
	if offset < 0 {
		return 0, badRequest("it asks for offset %d", offset)
	}
	done := 0
	for done < len(b) {
		at := offset + int64(done)
		if at >= size {
			return done, io.EOF
		}
		have, err := p.r.from(p.i, at, int(min(int64(len(b)-done), size-at)))
		if err != nil {
			return done, err
		}
		done += copy(b[done:], have)
	}
	return done, nil
}

// from returns bytes of a part from an offset, at least one; want are needed.
func (r *Remote) from(part int, offset int64, want int) ([]byte, error) {
	if r.ctx.Err() != nil {
		return nil, fault.New(fault.RunInterrupted, remoteComponent).Because(context.Cause(r.ctx))
	}
	if in := offset - r.at.offset; part == r.at.part && in >= 0 && in < int64(len(r.block)) {
		return r.block[in:], nil
	}
	inLine := part == r.at.part && offset == r.at.offset+int64(len(r.block)) && len(r.block) > 0
	n := max(want, leastBlock)
	if inLine {
		n = max(n, 2*len(r.block))
	}
	q := r.within(span{part, offset, min(n, mostBlock)})
	if r.ahead.n > 0 && r.ahead.part == part && r.ahead.offset == offset {
		q = r.ahead
	} else if r.ahead.n > 0 {
		r.drop() // what is on its way is not wanted
	}
	if err := r.fetch(q); err != nil {
		return nil, err
	}
	if inLine {
		r.askAhead()
	}
	return r.block, nil
}

// within cuts a span to its part.
func (r *Remote) within(q span) span {
	q.n = int(min(int64(q.n), r.sizes[q.part]-q.offset))
	return q
}

// askAhead asks for what follows the block, so that it is on its way while the
// block is used. A stream that fails here fails again where it matters.
func (r *Remote) askAhead() {
	next := r.within(span{r.at.part, r.at.offset + int64(len(r.block)), min(2*len(r.block), mostBlock)})
	if next.n == 0 || r.stream == nil {
		return
	}
	if r.ask(next) == nil {
		r.ahead = next
	} else {
		r.drop()
	}
}
