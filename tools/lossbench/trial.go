//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/infer"
)

const (
	story      = "Once upon a time"
	longAnswer = 480 // tokens; with the prompt they fit the model's context
	underWay   = 10  // pieces of an answer after which the loss comes
	mostAgain  = 3   // times that a trial is made again which a false fault came before
)

// tryAll makes all trials of all kinds and sizes, going on where one fails.
func tryAll(ctx context.Context, s *settings, r *record) error {
	for _, n := range s.sizes {
		for _, k := range s.kinds {
			if err := tryKind(ctx, s, r, k, n); err != nil {
				return fmt.Errorf("%s with %d nodes: %w", k.name, n, err)
			}
		}
	}
	return nil
}

// tryKind makes the trials of one kind on one pool, and on another where a
// trial leaves it unable to serve.
func tryKind(ctx context.Context, s *settings, r *record, k kind, n int) (err error) {
	var p *pool
	defer func() {
		if p != nil {
			err = errors.Join(err, p.end())
		}
	}()
	for i := range s.trials {
		if p == nil {
			if p, err = newPool(ctx, s, n, k == linkCut); err != nil {
				return err
			}
		}
		t := p.try(ctx, k, i)
		for again := 0; t.early != nil && again < mostAgain; again++ {
			r.early = append(r.early, t)
			fmt.Println(t.line())
			t = p.try(ctx, k, i)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.add(t)
		fmt.Println(t.line())
		if !t.served {
			ended := p.end()
			if p = nil; ended != nil {
				return ended
			}
		}
	}
	return nil
}

// try brings about one loss in the middle of an answer.
func (p *pool) try(ctx context.Context, k kind, i int) *trial {
	t := &trial{kind: k, nodes: len(p.nodes), number: i + 1}
	at, err := p.victim(ctx, t, i)
	if err != nil {
		return t.fails(err)
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, ended := make(chan struct{}), make(chan lost, 1)
	asking.Go(func() { ended <- p.answers(ctx, uint64(i+1), begun) })
	select {
	case <-begun:
	case l := <-ended:
		t.served, t.early = true, p.whyEarly(ctx, l.err)
		return t.fails(fmt.Errorf("a fault before any loss: %w", t.early))
	case <-ctx.Done():
		return t.fails(ctx.Err())
	}
	began := time.Now()
	back, err := p.lose(ctx, k, at)
	if err != nil {
		return t.fails(err)
	}
	overdue := time.NewTimer(errorWithin)
	defer overdue.Stop()
	select {
	case l := <-ended:
		t.toError = l.at.Sub(began)
		t.judge(l.err, p.caller)
	case <-overdue.C:
		t.fails(fmt.Errorf("the answer has not ended within %v", errorWithin))
	case <-ctx.Done():
		return t.fails(ctx.Err())
	}
	from := time.Now()
	if err := back(); err != nil {
		return t.fails(err)
	}
	if k == workerKill {
		from = began // the node has been at it since
	}
	came, err := p.nextToken(ctx, t)
	t.awaitToken(came, err, from)
	return t
}

// whyEarly is why the pool lost a run by itself, or else what the client was told.
func (p *pool) whyEarly(ctx context.Context, told error) error {
	if s, err := p.status(ctx); err == nil && s.Run != nil && s.Run.Fault != nil {
		return s.Run.Fault
	}
	return told
}

// victim chooses the node of the first, a middle and the last stage in turn, at
// a moment that is in step with nothing.
func (p *pool) victim(ctx context.Context, t *trial, i int) (int, error) {
	s, err := p.serving(ctx)
	if err != nil {
		return 0, err
	}
	if !pause(ctx, 500*time.Millisecond+rand.N(time.Second)) {
		return 0, ctx.Err()
	}
	stages := s.Run.Stages
	t.stage = []int{0, len(stages) / 2, len(stages) - 1}[i%3]
	t.victim = stages[t.stage].Name
	return p.named(t.victim)
}

// lost is how an answer ended.
type lost struct {
	err error
	at  time.Time
}

// answers has one answer after the other, until one ends by an error; begun is
// closed once the first is under way.
func (p *pool) answers(ctx context.Context, seed uint64, begun chan<- struct{}) lost {
	sampling := infer.Greedy()
	sampling.Temperature, sampling.Seed = 1.5, seed
	pieces := 0
	for {
		_, err := p.api.Run(ctx, gateway.Prompt{Prompt: story, Sampling: sampling, MaxTokens: longAnswer}, func(string) error {
			if pieces++; pieces == underWay {
				close(begun)
			}
			return nil
		})
		if err != nil {
			return lost{err, time.Now()}
		}
		sampling.Seed++
	}
}

// lose brings the loss about; back brings back what was lost.
func (p *pool) lose(ctx context.Context, k kind, at int) (back func() error, err error) {
	o := p.nodes[at]
	switch k {
	case nodeKill:
		o.kill()
		return func() error { return p.start(at) }, nil
	case nodeStop:
		return func() error { return o.signal(syscall.SIGCONT) }, o.signal(syscall.SIGSTOP)
	case linkCut:
		return func() error { return o.cable.plug(ctx) }, o.cable.pull(ctx)
	default:
		pid, err := workerOf(o.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		worker, err := os.FindProcess(pid)
		if err != nil {
			return nil, err
		}
		return func() error { return nil }, worker.Kill()
	}
}

// nextToken asks until a token comes, and returns when it came. Faults on the
// way other than that no run serves are added to the trial.
func (p *pool) nextToken(ctx context.Context, t *trial) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		var came time.Time
		_, err := p.api.Run(ctx, gateway.Prompt{Prompt: story, Sampling: infer.Greedy(), MaxTokens: 1}, func(string) error {
			came = time.Now()
			return nil
		})
		if !came.IsZero() {
			return came, nil
		}
		if err != nil && !isRefusal(err) && ctx.Err() == nil {
			f := fault.From(err)
			t.again = append(t.again, fmt.Sprintf("%s of %s", f.Code, p.caller(f.Node)))
		}
		if !pause(ctx, 20*time.Millisecond) {
			s, _ := p.status(context.WithoutCancel(ctx)) // it says more, where it can be had
			return came, fmt.Errorf("no token within %v: %w", serveWithin, errors.Join(err, blockers(s)))
		}
	}
}
