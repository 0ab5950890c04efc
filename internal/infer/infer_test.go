package infer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
)

func TestPromptGoesInChunksAndIsAnsweredOnce(t *testing.T) {
	p := newFakePipe()
	s := serve(t, p, Config{Recipe: recipe(1)})
	var got []int32
	res, err := s.Generate(t.Context(), Request{Prompt: prompt(10), Sampling: Greedy(), MaxTokens: 3}, func(a wire.Answer) error {
		got = append(got, a.Token)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	drained(t, s)
	if want := []int32{110, 111, 112}; !slices.Equal(res.Tokens, want) || !slices.Equal(got, want) {
		t.Errorf("tokens %v, told %v, want %v", res.Tokens, got, want)
	}
	if res.Finish != Length || res.Decoded != 2 || res.Prompted != 10 {
		t.Errorf("%+v", res)
	}
	var counts []int
	sent := p.records()
	for i, r := range sent {
		counts = append(counts, r.Items[0].Count)
		if r.Sequence != uint64(i) || r.ID != uint64(i+1) {
			t.Errorf("record %d has sequence %d and id %d", i, r.Sequence, r.ID)
		}
	}
	if want := []int{4, 4, 2, 1, 1, 0}; !slices.Equal(counts, want) {
		t.Fatalf("batches of %v, want %v", counts, want)
	}
	if !slices.Equal(sent[1].Tokens, []int32{5, 6, 7, 8}) || !slices.Equal(sent[3].Tokens, []int32{110}) {
		t.Errorf("tokens %v and %v were sent", sent[1].Tokens, sent[3].Tokens)
	}
	var open wire.SlotOpen
	if err := json.Unmarshal(sent[0].Items[0].Extra, &open); err != nil || !slices.Equal(open.Prompt, prompt(10)) {
		t.Errorf("opened with %+v, %v", open, err)
	}
	if last := sent[5].Items[0]; last.Marks != wire.MarkEnd || last.Position != 12 {
		t.Errorf("ended with %+v", last)
	}
}

func TestEndOfGenerationIsNotAToken(t *testing.T) {
	s := serve(t, newFakePipe(), Config{Recipe: recipe(1)})
	res, err := s.Generate(t.Context(), Request{
		Prompt: prompt(2), Sampling: Greedy(), Ends: func(id int32) bool { return id == 104 },
	}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{102, 103}; !slices.Equal(res.Tokens, want) || res.Finish != Stop {
		t.Errorf("tokens %v finish %s", res.Tokens, res.Finish)
	}
}

func TestAFullSlotEndsWithLength(t *testing.T) {
	for _, slots := range []int{1, 3} { // a slot's share is 16 either way
		s := serve(t, newFakePipe(), Config{Recipe: recipe(slots)})
		res, err := s.Generate(t.Context(), Request{Prompt: prompt(14), Sampling: Greedy()}, ignore)
		if err != nil {
			t.Fatal(err)
		}
		// Positions 14 and 15 are fed; the token after 15 is told and has no place.
		if want := []int32{114, 115, 116}; !slices.Equal(res.Tokens, want) || res.Finish != Length {
			t.Errorf("%d slots: tokens %v finish %s", slots, res.Tokens, res.Finish)
		}
	}
}

func TestGenerationsOfASlotDiffer(t *testing.T) {
	p := newFakePipe()
	s := serve(t, p, Config{Recipe: recipe(1)})
	for range 2 {
		if _, err := s.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 1}, ignore); err != nil {
			t.Fatal(err)
		}
	}
	drained(t, s)
	sent := p.records()
	if a, b := sent[0].Items[0].Generation, sent[2].Items[0].Generation; a == 0 || b <= a {
		t.Errorf("generations %d and %d", a, b)
	}
}

func TestRequestsThatCannotBe(t *testing.T) {
	nan := Greedy()
	nan.Temperature = float32(math.NaN())
	for name, c := range map[string]struct {
		req  Request
		want fault.Code
	}{
		"no prompt":        {Request{Sampling: Greedy()}, fault.RequestPromptEmpty},
		"prompt too long":  {Request{Prompt: prompt(16), Sampling: Greedy()}, fault.RequestPromptTooLong},
		"temperature NaN":  {Request{Prompt: prompt(1), Sampling: nan}, fault.RequestSamplingInvalid},
		"top-p over one":   {Request{Prompt: prompt(1), Sampling: wire.Sampling{TopP: 1.5, RepeatPenalty: 1, Logprobs: -1}}, fault.RequestSamplingInvalid},
		"negative penalty": {Request{Prompt: prompt(1), Sampling: wire.Sampling{TopP: 1, RepeatPenalty: -1, Logprobs: -1}}, fault.RequestSamplingInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePipe()
			_, err := serve(t, p, Config{Recipe: recipe(2)}).Generate(t.Context(), c.req, ignore)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if len(p.records()) > 0 {
				t.Errorf("%d records were sent", len(p.records()))
			}
		})
	}
}

func TestAFaultOfThePipeEndsTheAnswer(t *testing.T) {
	killed := fault.New(fault.WorkerKilled, "worker 2", "signal", "SIGKILL")
	for name, p := range map[string]*fakePipe{
		"while it receives": {fail: killed, answers: make(chan wire.Record, 64)},
		"while it sends":    {refuse: killed, answers: make(chan wire.Record, 64)},
	} {
		s := serve(t, p, Config{Recipe: recipe(1)})
		for range 2 { // the second one finds the server ended
			_, err := s.Generate(t.Context(), Request{Prompt: prompt(9), Sampling: Greedy()}, func(wire.Answer) error {
				t.Error("a token was told")
				return nil
			})
			if !errors.Is(err, fault.WorkerKilled) || !errors.Is(s.Failed(), fault.WorkerKilled) {
				t.Errorf("%s: got %v, the server's end is %v", name, err, s.Failed())
			}
		}
	}
}

// Answers that are not those to what was sent end the server: nothing of them
// may be told as a token.
func TestAnswersToSomethingElseEndTheServer(t *testing.T) {
	for name, alter := range map[string]func(*wire.Record){
		"another slot":       func(r *wire.Record) { r.Items[0].Slot++ },
		"another generation": func(r *wire.Record) { r.Items[0].Generation++ },
		"another kind":       func(r *wire.Record) { r.Kind = wire.KindTokens },
		"an item less":       func(r *wire.Record) { r.Items = nil },
		"an end":             func(r *wire.Record) { r.Items[0].Marks |= wire.MarkEnd },
		"no answer":          func(r *wire.Record) { r.Items[0].Marks, r.Answers = 0, nil },
	} {
		p := newFakePipe()
		p.alter = alter
		_, err := serve(t, p, Config{Recipe: recipe(1)}).Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy()}, ignore)
		if !errors.Is(err, fault.StageRecordInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheServersContextEndsAnAnswerThatIsOwed(t *testing.T) {
	p := newFakePipe()
	p.gate = make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	s := Serve(ctx, p, Config{Recipe: recipe(1)})
	defer s.Close(errOver)
	cause := errors.New("asked to stop")
	go cancel(cause)
	if _, err := s.Generate(t.Context(), Request{Prompt: prompt(3), Sampling: Greedy()}, ignore); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
}
