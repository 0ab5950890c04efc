//go:build unix

package chain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"

	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/wire"
)

// A client that goes in the middle frees its slot on every stage for the next,
// and the others get the tokens that they get when nobody goes.
func TestWhoGoesDisturbsNobody(t *testing.T) {
	cfg := config(t, tale(t), 3)
	cfg.Recipe.Slots, cfg.Recipe.Deterministic = 3, true
	c, p := taped(t, cfg)
	stay := crowd()[2:5]
	want := make([]heard, len(stay))
	for i, a := range stay {
		want[i] = ask(t, c, a)
	}
	gone := errors.New("the client has gone")
	var goers sync.WaitGroup
	for range 4 { // more than there are slots for, beside those who stay
		goers.Go(func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			n := 0
			res, err := c.Generate(ctx, infer.Request{Prompt: made(80), Sampling: infer.Greedy(), Ends: func(int32) bool { return false }},
				func(string, wire.Answer) error {
					if n++; n == 6 {
						cancel(gone)
					}
					return nil
				})
			if !errors.Is(err, gone) || len(res.Tokens) != 6 {
				t.Errorf("ended after %d tokens with %v", len(res.Tokens), err)
			}
		})
	}
	for i, h := range askAll(t, c, stay) {
		if !slices.Equal(h.tokens, want[i].tokens) {
			t.Errorf("client %d got %v, want %v", i, h.tokens, want[i].tokens)
		}
	}
	goers.Wait()
	if err := c.server.Drain(t.Context()); err != nil { // every slot came to its confirmed end
		t.Error(err)
	}
	opened, ended := 0, 0
	for _, r := range p.sent {
		for _, it := range r.Items {
			opened += int(it.Marks & wire.MarkOpen / wire.MarkOpen)
			ended += int(it.Marks & wire.MarkEnd / wire.MarkEnd)
		}
	}
	if opened != ended || opened != 2*len(stay)+4 {
		t.Errorf("%d slots were opened, %d ended", opened, ended)
	}
}

// Slots that are full end with length, at once with others, and none takes the
// room of another.
func TestFullSlotsEndWithLength(t *testing.T) {
	cfg := config(t, tale(t), 2)
	cfg.Recipe.Slots, cfg.Recipe.Context = 3, 3*70
	c := start(t, cfg)
	all := []asking{{prompt: 60}, {prompt: 5}, {prompt: 69}, {prompt: 30}}
	for i := range all {
		all[i].sampling = infer.Greedy()
	}
	for i, h := range askAll(t, c, all) {
		if want := 70 - all[i].prompt + 1; h.finish != infer.Length || len(h.tokens) != want {
			t.Errorf("client %d: %s after %d tokens, want %d", i, h.finish, len(h.tokens), want)
		}
	}
	_, err := c.Generate(t.Context(), infer.Request{Prompt: made(69), Sampling: infer.Greedy(), MaxTokens: 1}, func(string, wire.Answer) error { return nil })
	if err != nil {
		t.Errorf("a slot is not free again: %v", err)
	}
}

// A worker that dies ends every request, those that wait too, with the fault
// that names it.
func TestALostWorkerEndsEveryAnswer(t *testing.T) {
	testkit.Leaks(t)
	cfg := config(t, stories(), 3)
	cfg.Recipe.Slots = 3
	c := start(t, cfg)
	var hit sync.Once
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			n := 0
			_, err := c.Generate(t.Context(), infer.Request{Prompt: made(20), Sampling: infer.Greedy(), Ends: func(int32) bool { return false }},
				func(string, wire.Answer) error {
					if n++; n == 5 {
						hit.Do(func() { kill(t, c, 1, syscall.SIGKILL) })
					}
					return nil
				})
			if f := fault.From(err); err == nil || f.Code != fault.WorkerKilled || f.Component != workerName(1) {
				t.Errorf("an answer ended with %v", err)
			}
		})
	}
	clients.Wait()
}
