package infer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Several requests share records, and each gets its own tokens.
func TestSlotsAreServedTogether(t *testing.T) {
	const most = 200
	p := newFakePipe()
	p.gate = make(chan struct{}, 1000)
	s := serve(t, p, Config{Recipe: wire.Recipe{Context: 3 * most * 2, Slots: 3, Chunk: 4}})
	results := make([]Result, 3)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			var err error
			if results[i], err = s.Generate(t.Context(), Request{Prompt: prompt(i + 1), Sampling: Greedy(), MaxTokens: most}, ignore); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "the last of the three prompts", func() bool {
		p.gate <- struct{}{}
		begun := 0
		for _, r := range p.records() {
			for _, it := range r.Items {
				begun += int(it.Marks & wire.MarkOpen)
			}
		}
		return begun == 3
	})
	for range cap(p.gate) - len(p.gate) {
		p.gate <- struct{}{}
	}
	all.Wait()
	drained(t, s)
	for i, res := range results {
		want := make([]int32, most)
		for k := range want {
			want[k] = int32(101 + i + k)
		}
		if !slices.Equal(res.Tokens, want) || res.Finish != Length {
			t.Errorf("request %d: %v, %s", i, res.Tokens, res.Finish)
		}
	}
	together := 0
	for _, r := range p.records() {
		if len(r.Items) == 3 && r.TokenCount() == 3 {
			together++
		}
	}
	if together == 0 { // how often depends on who reads how fast
		t.Error("no record decoded all three")
	}
}

// A client that has gone leaves its slot to the next, and disturbs nobody.
func TestWhoGoesFreesItsSlot(t *testing.T) {
	refused := errors.New("the client has gone")
	for name, leave := range map[string]func(cancel context.CancelCauseFunc) error{
		"by its context": func(cancel context.CancelCauseFunc) error { cancel(refused); return nil },
		"by its emit":    func(context.CancelCauseFunc) error { return refused },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePipe()
			p.gate = make(chan struct{}, 1000)
			s := serve(t, p, Config{Recipe: wire.Recipe{Context: 400, Slots: 2, Chunk: 4}})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var all sync.WaitGroup
			var stays, goes Result
			var stayed, went error
			all.Go(func() {
				stays, stayed = s.Generate(t.Context(), Request{Prompt: prompt(2), Sampling: Greedy(), MaxTokens: 40}, ignore)
			})
			eventually(t, "the first record", func() bool { return len(p.records()) == 1 })
			all.Go(func() {
				n := 0
				goes, went = s.Generate(ctx, Request{Prompt: prompt(3), Sampling: Greedy()}, func(wire.Answer) error {
					if n++; n == 5 {
						return leave(cancel)
					}
					return nil
				})
			})
			for range 4 {
				p.gate <- struct{}{}
			}
			eventually(t, "five tokens", func() bool {
				p.gate <- struct{}{}
				return slices.Equal(p.ended(), []uint16{1})
			})
			for range cap(p.gate) - len(p.gate) {
				p.gate <- struct{}{}
			}
			all.Wait()
			if !errors.Is(went, refused) || len(goes.Tokens) != 5 || goes.Finish != "" {
				t.Errorf("the one that went: %v, %+v", went, goes)
			}
			if stayed != nil || len(stays.Tokens) != 40 || stays.Tokens[39] != 141 {
				t.Errorf("the one that stayed: %v, %v", stayed, stays.Tokens)
			}
			if res, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 2}, ignore); err != nil || len(res.Tokens) != 2 {
				t.Errorf("the next one: %v, %v", res.Tokens, err)
			}
			drained(t, s)
		})
	}
}

// One who waits for a slot and goes is not served.
func TestWhoGoesWhileItWaitsIsNotServed(t *testing.T) {
	p := newFakePipe()
	p.gate = make(chan struct{}, 1000)
	s := serve(t, p, Config{Recipe: recipe(1)})
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 2}, ignore); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the first record", func() bool { return len(p.records()) == 1 })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	if _, err := s.Generate(ctx, Request{Prompt: prompt(2), Sampling: Greedy()}, ignore); !errors.Is(err, errOver) {
		t.Errorf("it ended with %v", err)
	}
	for range cap(p.gate) {
		p.gate <- struct{}{}
	}
	first.Wait()
	drained(t, s)
	for _, r := range p.records() {
		if r.Items[0].Generation > 1 {
			t.Errorf("it got the slot: %+v", r.Items)
		}
	}
}

func TestAFullQueueRefusesWithItsFigures(t *testing.T) {
	p := newFakePipe()
	p.gate = make(chan struct{}, 1000)
	s := serve(t, p, Config{Recipe: recipe(1), Queue: 2})
	var all sync.WaitGroup
	taken := make(chan error, 5)
	for range 5 {
		all.Go(func() {
			_, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 2}, ignore)
			taken <- err
		})
	}
	for range 2 { // a slot and a queue of two take three
		err := <-taken
		f := fault.From(err)
		if f == nil || f.Code != fault.RequestQueueFull || f.Attr("slots") != "1" || f.Attr("waiting") != "2" || f.Code.Entry().HTTP() != 429 {
			t.Errorf("refused with %v", err)
		}
	}
	for range cap(p.gate) {
		p.gate <- struct{}{}
	}
	all.Wait()
	for range 3 {
		if err := <-taken; err != nil {
			t.Errorf("one that was taken ended with %v", err)
		}
	}
}

// A slow reader holds up itself alone, and is not decoded on without bound.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	p := newFakePipe()
	s := serve(t, p, Config{Recipe: wire.Recipe{Context: 400, Slots: 2, Chunk: 4}})
	open := make(chan struct{})
	var slow sync.WaitGroup
	var got Result
	slow.Go(func() {
		var err error
		if got, err = s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 100}, func(wire.Answer) error {
			<-open
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the slow one's beginning", func() bool { return len(p.records()) > 0 })
	res, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 100}, ignore)
	if err != nil || len(res.Tokens) != 100 {
		t.Errorf("the quick one: %d tokens, %v", len(res.Tokens), err)
	}
	fed := 0
	for _, r := range p.records() {
		for _, it := range r.Items {
			if it.Slot == 0 && it.Marks&wire.MarkAnswer != 0 {
				fed++
			}
		}
	}
	if fed > window {
		t.Errorf("%d tokens were computed for one that has taken none", fed)
	}
	close(open)
	slow.Wait()
	if len(got.Tokens) != 100 {
		t.Errorf("the slow one has %d tokens", len(got.Tokens))
	}
}

// A graceful stop answers what was taken and takes no more.
func TestDrainLetsAnswersEnd(t *testing.T) {
	p := newFakePipe()
	p.gate = make(chan struct{}, 1000)
	s := serve(t, p, Config{Recipe: recipe(2)})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			res, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 3}, ignore)
			if err != nil || len(res.Tokens) != 3 {
				t.Errorf("%v, %v", res.Tokens, err)
			}
		})
	}
	eventually(t, "both prompts", func() bool {
		n := 0
		for _, r := range p.records() {
			n += r.TokenCount()
		}
		return n == 2
	})
	short, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	if err := s.Drain(short); !errors.Is(err, errOver) {
		t.Errorf("it drained with %v", err)
	}
	eventually(t, "a refusal", func() bool {
		_, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 1}, ignore)
		return errors.Is(err, fault.RequestServiceStopped)
	})
	for range cap(p.gate) {
		p.gate <- struct{}{}
	}
	drained(t, s)
	all.Wait()
}
