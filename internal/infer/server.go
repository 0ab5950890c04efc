package infer

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"muster/internal/core/batch"
	"muster/internal/fault"
	"muster/internal/wire"
)

const (
	// window is how many tokens a request is decoded ahead of an emit that is
	// slow: enough that one who reads in bursts never waits, and little to throw
	// away when the client has gone.
	window = 16
	// defaultQueue is how many requests wait where nothing else was said.
	defaultQueue = 64
)

// Config is what a Server serves.
type Config struct {
	Recipe wire.Recipe // of all stages, settled
	Stages int         // of the chain; 0 is 1
	Queue  int         // requests that wait at most while no slot is free; 0 is 64
}

func (c Config) schedule() batch.Config {
	queue := c.Queue
	if queue == 0 {
		queue = defaultQueue
	}
	return batch.Config{
		Slots: c.Recipe.Slots, Share: c.Recipe.Share(), Chunk: c.Recipe.Chunk,
		Stages: max(1, c.Stages), Queue: queue, Window: window, Alone: c.Recipe.Deterministic,
	}
}

// Server serves requests through one chain, several at once. Its methods may be
// called from any goroutine.
type Server struct {
	cfg  Config
	pipe Pipe

	mail chan letter
	owed chan struct{}     // a record went out
	came chan *wire.Record // its answer

	over  context.Context // ends with why the server has ended
	end   context.CancelCauseFunc
	tasks sync.WaitGroup
}

// Serve begins to serve the chain behind pipe, whose slots are all closed,
// until ctx ends, a record is lost or Close. After that the chain's slots are in
// doubt.
func Serve(ctx context.Context, pipe Pipe, cfg Config) *Server {
	under := max(1, cfg.Stages) + 1 // never more records are under way: none of these blocks
	s := &Server{
		cfg: cfg, pipe: pipe,
		mail: make(chan letter, 64), owed: make(chan struct{}, under), came: make(chan *wire.Record, under),
	}
	s.over, s.end = context.WithCancelCause(ctx)
	l := newLoop(s)
	s.tasks.Go(l.run)
	s.tasks.Go(s.receive)
	return s
}

// Failed is why the server has ended, nil while it serves.
func (s *Server) Failed() error { return context.Cause(s.over) }

// Done is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.over.Done() }

// Close ends every request with cause, and returns when the pipe is no longer
// used. Where the server has ended before, its first cause counts.
func (s *Server) Close(cause error) {
	s.end(cause)
	s.tasks.Wait()
}

// Drain refuses new requests from now on and waits until all that were taken
// have been answered and their slots are free. It fails with the cause of ctx
// or of the server's end.
func (s *Server) Drain(ctx context.Context) error {
	idle := make(chan struct{})
	s.post(drain{idle})
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over.Done():
		return s.Failed()
	}
}

// receive takes the answer to every record that went out.
func (s *Server) receive() {
	for {
		select {
		case <-s.owed:
		case <-s.over.Done():
			return
		}
		r := &wire.Record{} // its answers are handed on
		if err := s.pipe.Receive(s.over, r); err != nil {
			s.end(err)
			return
		}
		s.came <- r
	}
}

// post hands the loop a letter, unless it has ended.
func (s *Server) post(l letter) {
	select {
	case s.mail <- l:
	case <-s.over.Done():
	}
}

// asked is a request that the loop knows.
type asked struct {
	Request
	extra  []byte         // of the mark that opens its slot
	id     uint64         // given by the loop
	latest int32          // token last drawn
	began  chan time.Time // when its first record went out
	tokens chan told      // never full: no more than window are decoded ahead
}

// told is what a request is told of one answer.
type told struct {
	answer wire.Answer
	at     time.Time
	finish batch.Finish
}

// Generate answers req as soon as a slot is free, calling emit for every token
// in turn (without the one that ends the generation). An emit that blocks holds
// up this request alone, which is decoded a few tokens ahead of it and no
// further. An error of emit, or the end of ctx, ends the request: its slot's end
// goes out within two records, and the others go on.
//
// Faults: request.prompt_empty, request.prompt_too_long,
// request.sampling_invalid, request.queue_full, request.service_stopped; the
// cause of ctx; the error of emit; else the cause of the server's end.
func (s *Server) Generate(ctx context.Context, req Request, emit func(wire.Answer) error) (Result, error) {
	if err := check(req, s.cfg.Recipe); err != nil {
		return Result{}, err
	}
	extra, err := json.Marshal(wire.SlotOpen{Sampling: req.Sampling, Prompt: req.Prompt})
	if err != nil {
		return Result{}, fault.New(fault.InternalUnexpected, "").Because(err)
	}
	a := &asked{Request: req, extra: extra, began: make(chan time.Time, 1), tokens: make(chan told, window+1)}
	taken := make(chan error, 1)
	start := time.Now()
	s.post(submit{a, taken})
	select {
	case err = <-taken:
	case <-ctx.Done(): // follow gives it up
	case <-s.over.Done():
		err = s.Failed()
	}
	if err != nil {
		return Result{}, err
	}
	res, err := s.follow(ctx, a, start, emit)
	if err != nil {
		s.post(cancel{a})
	}
	return res, err
}

// follow hands the tokens of a request to emit, up to its end.
func (s *Server) follow(ctx context.Context, a *asked, start time.Time, emit func(wire.Answer) error) (Result, error) {
	t := tally{Result: Result{Prompted: len(a.Prompt)}, a: a, start: start}
	unsaid := 0
	for {
		next, err := s.await(ctx, a)
		if err != nil {
			return t.Result, err
		}
		t.add(next)
		if next.finish != batch.Stop {
			t.Tokens = append(t.Tokens, next.answer.Token)
			if err := emit(next.answer); err != nil {
				t.Finish = ""
				return t.Result, err
			}
		}
		if next.finish != batch.Going {
			return t.Result, nil
		}
		if unsaid++; unsaid == window/2 { // each word of it wakes the loop
			s.post(took{a, unsaid})
			unsaid = 0
		}
	}
}

// await is the next answer. What has been told counts before an end.
func (s *Server) await(ctx context.Context, a *asked) (told, error) {
	if ctx.Err() != nil {
		return told{}, context.Cause(ctx)
	}
	select {
	case next := <-a.tokens:
		return next, nil
	case <-ctx.Done():
		return told{}, context.Cause(ctx)
	case <-s.over.Done():
	}
	select {
	case next := <-a.tokens:
		return next, nil
	default:
		return told{}, s.Failed()
	}
}

// tally is a Result in the making.
type tally struct {
	Result
	a     *asked
	start time.Time // of the request
	first time.Time // answer
}

func (t *tally) add(next told) {
	if t.first.IsZero() {
		sent := <-t.a.began // it was answered, so it was sent
		t.first = next.at
		t.Queued, t.FirstToken = sent.Sub(t.start), next.at.Sub(sent)
	} else {
		t.Decoded++
		t.Decoding = next.at.Sub(t.first)
	}
	switch next.finish {
	case batch.Stop:
		t.Finish = Stop
	case batch.Length:
		t.Finish = Length
	case batch.Going:
	}
}
