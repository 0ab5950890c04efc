package orch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/wire"
)

// Clients are answered at the same time, each with its own tokens; one that goes
// frees its slot for those who wait, and the run goes on.
func TestClientsAreAnsweredTogether(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Recipe = wire.Recipe{Context: 2 * 128, Slots: 2, Chunk: 16} }).boot()
	serves := w.serving(id.RunID{})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	// Two clients each wait for a token of the other: neither would end if they
	// were answered one after the other.
	var both, clients sync.WaitGroup
	both.Add(2)
	for i := range 2 {
		clients.Go(func() {
			var said strings.Builder
			told := 0
			res, err := w.Generate(ctx, Request{Prompt: strings.Repeat("x", 5+i), Sampling: infer.Greedy(), MaxTokens: 40}, func(text string, _ wire.Answer) error {
				if told++; told == 1 {
					both.Done()
					both.Wait()
				}
				said.WriteString(text)
				return nil
			})
			want := ""
			for k := range 40 {
				want += fmt.Sprintf("%d ", 5+i+k)
			}
			if err != nil || said.String() != want || res.Finish != infer.Length {
				t.Errorf("client %d: %q, %s, %v", i, said.String(), res.Finish, err)
			}
		})
	}
	clients.Wait()

	gone := errors.New("the client has gone")
	var goers sync.WaitGroup
	for range 3 {
		goers.Go(func() {
			_, err := w.Generate(ctx, Request{Prompt: "hello", Sampling: infer.Greedy()}, func(string, wire.Answer) error { return gone })
			if !errors.Is(err, gone) {
				t.Errorf("one that went ended with %v", err)
			}
		})
		goers.Go(func() {
			left, cancel := context.WithCancel(ctx)
			_, err := w.Generate(left, Request{Prompt: "hello", Sampling: infer.Greedy()}, func(string, wire.Answer) error {
				cancel()
				return nil
			})
			cancel()
			if !errors.Is(err, fault.RunInterrupted) {
				t.Errorf("one that was cancelled ended with %v", err)
			}
		})
	}
	goers.Wait()
	if said, _, err := w.say(2); err != nil || said != "5 6 " {
		t.Errorf("the next one got %q, %v", said, err)
	}
	if s := w.session.Load(); s == nil || s.key.Run != serves {
		t.Error("the run has not gone on")
	}
}

// A prompt that does not fit into a slot is refused by what a slot holds.
func TestAPromptIsHeldAgainstItsSlot(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.Recipe = wire.Recipe{Context: 2 * 16, Slots: 2, Chunk: 16} }).boot()
	w.serving(id.RunID{})
	_, err := w.Generate(t.Context(), Request{Prompt: strings.Repeat("x", 16), Sampling: infer.Greedy()}, func(string, wire.Answer) error { return nil })
	if f := mustFault(t, err, fault.RequestPromptTooLong); f.Attr("context") != "16" {
		t.Errorf("refused with %v", f)
	}
}
