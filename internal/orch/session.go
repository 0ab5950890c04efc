package orch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/credit"
	"muster/internal/core/run"
	"muster/internal/edge"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/wire"
)

// causeWithin is how long a request that failed waits to learn why its run
// ended.
const causeWithin = 3 * time.Second

// session serves requests through the chain of one run, one after the other.
type session struct {
	key     run.Key
	pipe    *owingPipe
	arrival *edge.Arrival
	driver  *infer.Driver
	turn    chan struct{} // one token: who holds it uses the driver
	run     admit.Run
	ended   context.Context // ends with the run's outcome as its cause
}

func newSession(o *Orch, l *lead, p *edge.Pipe, r admit.Run) *session {
	s := &session{
		key: l.key, run: r, pipe: &owingPipe{Pipe: p}, arrival: l.arrival, turn: make(chan struct{}, 1), ended: l.live,
	}
	s.driver = infer.NewDriver(s.pipe, o.model.recipe)
	return s
}

// close waits for the request that runs, which ends with the run, and lets go
// of the edges.
func (s *session) close() {
	s.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.pipe.Close(ctx) // the run has ended: nobody reads what it was
	s.arrival.Close()
}

// Request is a prompt and how it is to be answered.
type Request struct {
	Prompt    string
	Tokens    []int32 // in place of Prompt, where set
	Sampling  wire.Sampling
	MaxTokens int // 0: until the context is full
	// Accept is called once the request is let in and its prompt is known,
	// before any of it is computed; an error of it refuses the request. Nil
	// accepts.
	Accept func(credit.Work) error
}

// Admitted lists what keeps requests from being taken: nothing means that a run
// serves and that each of its stages holds a live route. It is the one question
// that every request is let in by.
func (o *Orch) Admitted(ctx context.Context) ([]admit.Blocker, error) {
	s := o.session.Load()
	if s != nil && o.words.Load() != nil && s.ended.Err() == nil {
		return o.tracker.Admitted(s.run), nil
	}
	why := o.notServing(ctx)
	var f *fault.Fault
	if !errors.As(why, &f) || f.Code != fault.OrchRequestRefused {
		return nil, why
	}
	return []admit.Blocker{{Fault: f}}, nil
}

// ModelName is what the served model is called.
func (o *Orch) ModelName() string { return o.model.name }

// Generate answers a prompt, calling emit with the text of each token as it
// comes; text may be empty while a character is not whole, and a last call with
// the token -1 brings what is left. Requests wait for one another. One that is
// given up by ctx or by an error of emit ends at its next token, and leaves the
// run as it is.
//
// Faults: orch.request_refused where no run is serving, that of Accept, those of
// the request family, run.interrupted where ctx ended, and the fault of the run.
func (o *Orch) Generate(ctx context.Context, r Request, emit func(text string, a wire.Answer) error) (infer.Result, error) {
	blockers, err := o.Admitted(ctx)
	if err != nil {
		return infer.Result{}, err
	}
	if len(blockers) > 0 {
		return infer.Result{}, blockers[0].Fault
	}
	s, w := o.session.Load(), o.words.Load()
	if s == nil || w == nil {
		return infer.Result{}, o.notServing(ctx) // it has just ended
	}
	prompt := r.Tokens
	if prompt == nil {
		err = w.Check(r.Prompt, o.model.recipe.Context)
		if err != nil {
			return infer.Result{}, err
		}
		if prompt, err = o.text.tokens(ctx, r.Prompt); err != nil {
			return infer.Result{}, err
		}
	}
	if err := o.accept(s, r, len(prompt)); err != nil {
		return infer.Result{}, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return infer.Result{}, givenUp(ctx)
	case <-s.ended.Done():
		return infer.Result{}, context.Cause(s.ended)
	}
	return o.generate(ctx, s, w, infer.Request{Prompt: prompt, Sampling: r.Sampling, MaxTokens: r.MaxTokens}, emit)
}

// generate drives the chain to the request's end even where its client has
// gone, since a driver that is stopped in the middle leaves the slots in doubt.
func (o *Orch) generate(ctx context.Context, s *session, w *infer.Words, req infer.Request, emit func(string, wire.Answer) error) (infer.Result, error) {
	if s.ended.Err() != nil {
		return infer.Result{}, context.Cause(s.ended)
	}
	var gone atomic.Bool
	defer context.AfterFunc(ctx, func() { gone.Store(true) })()
	var refused error
	req.Ends = func(id int32) bool { return gone.Load() || w.Ends(id) }
	text := w.Text()
	res, err := s.driver.Generate(s.ended, req, func(a wire.Answer) error {
		if refused = emit(text.Add(a.Token), a); refused != nil {
			gone.Store(true)
		}
		return nil
	})
	switch {
	case err != nil && isOfRequest(err):
		return res, err
	case err != nil:
		return res, o.whyEnded(s, err)
	case refused != nil:
		return res, refused
	case ctx.Err() != nil:
		return res, givenUp(ctx)
	}
	if rest := text.End(); rest != "" {
		return res, emit(rest, wire.Answer{Token: -1})
	}
	return res, nil
}

// isOfRequest reports whether a request was refused before any of it was sent.
func isOfRequest(err error) bool {
	for _, code := range []fault.Code{fault.RequestPromptEmpty, fault.RequestPromptTooLong, fault.RequestSamplingInvalid} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

func givenUp(ctx context.Context) error {
	return fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
}

// generationFailed: the chain did not answer a request to its end.
type generationFailed struct {
	key run.Key
	err error
}

// whyEnded ends the run, whose slots are in doubt, and returns its first cause.
func (o *Orch) whyEnded(s *session, err error) error {
	if s.ended.Err() == nil {
		o.post(generationFailed{key: s.key, err: err})
	}
	t := time.NewTimer(causeWithin)
	defer t.Stop()
	select {
	case <-s.ended.Done():
		return context.Cause(s.ended)
	case <-t.C:
		return err
	}
}

// hearFailed blames the stage at the end of the edge that failed.
func (m *mailbox) hearFailed(g generationFailed) {
	l := m.lead
	if l == nil || l.key != g.key {
		return
	}
	f := fault.From(g.err)
	at := l.last()
	if f.Attr("edge") == l.edges[0].Short() || f.Attr("edge") == l.edges[0].String() {
		at = l.first()
	}
	m.blame(l.of(at), f)
}
