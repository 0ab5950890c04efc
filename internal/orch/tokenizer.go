package orch

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/weights"
	"muster/internal/wire"
	"muster/internal/worker"
)

// Deadlines of the tokenizer.
const (
	tokenizerBoot = 20 * time.Second
	tokenizeCall  = 10 * time.Second
	tokenizerStop = 3 * time.Second
	leastPause    = 500 * time.Millisecond // before it is started again
	mostPause     = 10 * time.Second
)

// tokenizer turns text into tokens, in a worker process that holds the
// vocabulary alone. One that dies is started again.
type tokenizer struct {
	cfg  Config
	tell func(event.Event)

	mu     sync.Mutex
	worker *worker.Worker
	vocab  *wire.Vocab // read once
	why    *fault.Fault
}

// keep starts the worker, and again whenever it ends, until ctx does. ready is
// called once, with the vocabulary or with why there is none.
func (t *tokenizer) keep(ctx context.Context, slice *weights.Slice, ready func(*wire.Vocab, error)) {
	pause := leastPause
	for first := true; ; first = false {
		began := time.Now()
		err := t.live(ctx, slice, first, ready)
		if ctx.Err() != nil {
			return
		}
		if first && err != nil && t.vocab == nil {
			ready(nil, err)
			return
		}
		f := fault.From(err)
		t.set(nil, f)
		t.tell(event.TokenizerLost{Fault: f})
		if time.Since(began) > mostPause {
			pause = leastPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// live is one life of the worker; it returns why it ended.
func (t *tokenizer) live(ctx context.Context, slice *weights.Slice, first bool, ready func(*wire.Vocab, error)) error {
	w, err := worker.Start(ctx, worker.Spec{
		Name: "tokenizer", Binary: t.cfg.Binary, Engine: t.cfg.Engine, Files: []*os.File{slice.File()},
		Nice: worker.DefaultNice, Boot: tokenizerBoot, LogLevel: 3, Log: func(line string) { t.cfg.Log("tokenizer", line) },
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenizerStop)
		defer cancel()
		_ = w.Stop(ctx) // it is gone either way, and why is known already
	}()
	vocab, err := t.load(ctx, w)
	if err != nil {
		return err
	}
	if first {
		t.vocab = vocab
		ready(vocab, nil)
	}
	t.set(w, nil)
	t.tell(event.TokenizerStarted{PID: w.PID(), Tokens: len(vocab.Pieces)})
	select {
	case <-w.Done():
		return w.Exit()
	case <-ctx.Done():
		t.set(nil, nil)
		return nil
	}
}

func (t *tokenizer) load(ctx context.Context, w *worker.Worker) (*wire.Vocab, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenizerBoot)
	defer cancel()
	load := &wire.Load{Kind: wire.LoadVocabulary, Path: fmt.Sprintf("/proc/self/fd/%d", wire.LifelineFD+1)}
	if _, err := w.Call(ctx, wire.Request{Op: wire.OpLoad, Load: load}, nil); err != nil {
		return nil, err
	}
	reply, err := w.Call(ctx, wire.Request{Op: wire.OpVocab}, nil)
	if err != nil {
		return nil, err
	}
	if reply.Vocab == nil {
		return nil, fault.New(fault.WorkerProtocolBroken, "tokenizer", "what", "no vocabulary was told")
	}
	return reply.Vocab, nil
}

func (t *tokenizer) set(w *worker.Worker, why *fault.Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.worker, t.why = w, why
}

// tokens are the ids of a text, with what the vocabulary adds by itself.
func (t *tokenizer) tokens(ctx context.Context, text string) ([]int32, error) {
	t.mu.Lock()
	w, why := t.worker, t.why
	t.mu.Unlock()
	if w == nil {
		refused := fault.New(fault.OrchRequestRefused, component, "what", "the tokenizer has not started yet")
		if why != nil {
			refused.Cause = why
		}
		return nil, refused
	}
	ctx, cancel := context.WithTimeout(ctx, tokenizeCall)
	defer cancel()
	reply, err := w.Call(ctx, wire.Request{Op: wire.OpTokenize, Tokenize: &wire.Tokenize{Text: text, Special: true, Parse: true}}, nil)
	if err != nil {
		return nil, err
	}
	return reply.Tokens, nil
}

// vocabularySlice makes the tokenizer's file.
func (m *model) vocabularySlice(ctx context.Context, cache *weights.Cache) (*weights.Slice, error) {
	p, err := gguf.PlanVocabulary(m.file, m.facts)
	if err != nil {
		return nil, err
	}
	return cache.Slice(ctx, p, m.file, m.manifest, nil)
}
