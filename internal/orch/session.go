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

// session serves requests through the chain of one run, as many at once as
// there are slots.
type session struct {
	key      run.Key
	pipe     *owingPipe
	arrival  *edge.Arrival
	server   *infer.Server
	run      admit.Run
	ended    context.Context // ends with the run's outcome as its cause
	draining atomic.Bool     // no new request is let in
}

func newSession(o *Orch, l *lead, p *edge.Pipe, r admit.Run) *session {
	s := &session{
		key: l.key, run: r, pipe: &owingPipe{Pipe: p}, arrival: l.arrival, ended: l.live,
	}
	s.server = infer.Serve(l.live, s.pipe, infer.Config{Recipe: o.model.recipe, Stages: len(l.stages)})
	o.tasks.Go(func() { o.watchServer(s) })
	return s
}

// watchServer ends the run whose chain did not answer: its slots are in doubt.
func (o *Orch) watchServer(s *session) {
	<-s.server.Done()
	if s.ended.Err() == nil {
		o.post(generationFailed{key: s.key, err: s.server.Failed()})
	}
}

// drain lets the requests that run be answered to their end, for as long as the
// configuration says, and lets no new one in.
func (o *Orch) drain(ctx context.Context) {
	s := o.session.Load()
	if s == nil {
		return
	}
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Drain)
	defer cancel()
	_ = s.server.Drain(ctx) // what has not ended by then ends with the run
}

// close ends the requests, which end with the run, and lets go of the edges.
func (s *session) close() {
	s.server.Close(context.Cause(s.ended))
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
	if s != nil && s.draining.Load() {
		return []admit.Blocker{{Fault: fault.New(fault.RequestServiceStopped, component)}}, nil
	}
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
// the token -1 brings what is left. As many requests as the recipe has slots are
// served at once, the others wait for one another. One that is given up by ctx
// or by an error of emit frees its slot within two steps, and leaves the run and
// the other requests as they are. An emit that blocks holds up its own request
// alone.
//
// Faults: orch.request_refused where no run is serving, that of Accept, those of
// the request family, among them request.queue_full, run.interrupted where ctx
// ended, and the fault of the run.
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
		err = w.Check(r.Prompt, o.model.recipe.Share())
		if err != nil {
			return infer.Result{}, err
		}
		if prompt, err = o.text.tokens(ctx, r.Prompt); err != nil {
			return infer.Result{}, err
		}
	}
	if err := o.accept(ctx, s, r, len(prompt)); err != nil {
		return infer.Result{}, err
	}
	return o.generate(ctx, s, w, infer.Request{Prompt: prompt, Sampling: r.Sampling, MaxTokens: r.MaxTokens, Ends: w.Ends}, emit)
}

func (o *Orch) generate(ctx context.Context, s *session, w *infer.Words, req infer.Request, emit func(string, wire.Answer) error) (infer.Result, error) {
	var refused error
	text := w.Text()
	res, err := s.server.Generate(ctx, req, func(a wire.Answer) error {
		refused = emit(text.Add(a.Token), a)
		return refused
	})
	switch {
	case refused != nil:
		return res, refused
	case err != nil && s.server.Failed() != nil:
		return res, whyEnded(s, err)
	case err != nil && ctx.Err() != nil:
		return res, givenUp(ctx)
	case err != nil:
		return res, err
	}
	if rest := text.End(); rest != "" {
		return res, emit(rest, wire.Answer{Token: -1})
	}
	return res, nil
}

func givenUp(ctx context.Context) error {
	return fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
}

// generationFailed: the chain does not answer.
type generationFailed struct {
	key run.Key
	err error
}

// whyEnded is the first cause of the end of the run whose chain failed with err.
func whyEnded(s *session, err error) error {
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
