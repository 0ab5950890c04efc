package infer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"muster/internal/fault"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePipe is a chain whose model answers with position + 100.
type fakePipe struct {
	sent    []wire.Record
	answers chan wire.Record
	fail    error // of Receive
	mute    bool  // answers nothing
}

func newFakePipe() *fakePipe { return &fakePipe{answers: make(chan wire.Record, 64)} }

func (p *fakePipe) Send(ctx context.Context, r *wire.Record) error {
	kept := *r
	kept.Items, kept.Tokens = slices.Clone(r.Items), slices.Clone(r.Tokens)
	p.sent = append(p.sent, kept)
	out := wire.Record{Sequence: r.Sequence, Kind: wire.KindAnswers, Items: kept.Items}
	for _, it := range r.Items {
		if it.Marks&wire.MarkAnswer != 0 {
			out.Answers = append(out.Answers, wire.Answer{Token: it.Position + int32(it.Count) + 100})
		}
	}
	if p.mute {
		return nil
	}
	select {
	case p.answers <- out:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *fakePipe) Receive(ctx context.Context, r *wire.Record) error {
	if p.fail != nil {
		return p.fail
	}
	select {
	case *r = <-p.answers:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func recipe() wire.Recipe { return wire.Recipe{Context: 16, Slots: 1, Chunk: 4} }

func prompt(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i + 1)
	}
	return p
}

func TestPromptGoesInChunksAndIsAnsweredOnce(t *testing.T) {
	p := newFakePipe()
	d := NewDriver(p, recipe())
	var got []int32
	res, err := d.Generate(t.Context(), Request{Prompt: prompt(10), Sampling: Greedy(), MaxTokens: 3}, func(a wire.Answer) error {
		got = append(got, a.Token)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{110, 111, 112}; !slices.Equal(res.Tokens, want) || !slices.Equal(got, want) {
		t.Errorf("tokens %v, told %v, want %v", res.Tokens, got, want)
	}
	if res.Finish != Length || res.Decoded != 2 {
		t.Errorf("finish %s after %d steps", res.Finish, res.Decoded)
	}
	var counts []int
	for i, r := range p.sent {
		counts = append(counts, r.Items[0].Count)
		if r.Sequence != uint64(i) {
			t.Errorf("record %d has sequence %d", i, r.Sequence)
		}
	}
	if want := []int{4, 4, 2, 1, 1, 0}; !slices.Equal(counts, want) {
		t.Errorf("batches of %v, want %v", counts, want)
	}
	var open wire.SlotOpen
	if err := json.Unmarshal(p.sent[0].Items[0].Extra, &open); err != nil || !slices.Equal(open.Prompt, prompt(10)) {
		t.Errorf("opened with %+v, %v", open, err)
	}
	if last := p.sent[5].Items[0]; last.Marks != wire.MarkEnd || last.Position != 12 {
		t.Errorf("ended with %+v", last)
	}
}

func TestEndOfGenerationIsNotAToken(t *testing.T) {
	p := newFakePipe()
	d := NewDriver(p, recipe())
	res, err := d.Generate(t.Context(), Request{
		Prompt: prompt(2), Sampling: Greedy(), Ends: func(id int32) bool { return id == 104 },
	}, func(wire.Answer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{102, 103}; !slices.Equal(res.Tokens, want) || res.Finish != Stop {
		t.Errorf("tokens %v finish %s", res.Tokens, res.Finish)
	}
}

func TestAFullContextEndsWithLength(t *testing.T) {
	p := newFakePipe()
	d := NewDriver(p, recipe())
	res, err := d.Generate(t.Context(), Request{Prompt: prompt(14), Sampling: Greedy()}, func(wire.Answer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	// Positions 14 and 15 are fed; the token after 15 is told and has no place.
	if want := []int32{114, 115, 116}; !slices.Equal(res.Tokens, want) || res.Finish != Length {
		t.Errorf("tokens %v finish %s", res.Tokens, res.Finish)
	}
}

func TestGenerationsOfASlotDiffer(t *testing.T) {
	p := newFakePipe()
	d := NewDriver(p, recipe())
	for range 2 {
		if _, err := d.Generate(t.Context(), Request{Prompt: prompt(1), Sampling: Greedy(), MaxTokens: 1}, func(wire.Answer) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := p.sent[0].Items[0].Generation, p.sent[2].Items[0].Generation; a == 0 || b <= a {
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
			_, err := NewDriver(p, recipe()).Generate(t.Context(), c.req, func(wire.Answer) error { return nil })
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if len(p.sent) > 0 {
				t.Errorf("%d records were sent", len(p.sent))
			}
		})
	}
}

func TestAFaultOfThePipeEndsTheAnswer(t *testing.T) {
	p := newFakePipe()
	p.fail = fault.New(fault.WorkerKilled, "worker 2", "signal", "SIGKILL")
	_, err := NewDriver(p, recipe()).Generate(t.Context(), Request{Prompt: prompt(9), Sampling: Greedy()}, func(wire.Answer) error {
		t.Error("a token was told")
		return nil
	})
	if !errors.Is(err, fault.WorkerKilled) {
		t.Fatalf("got %v", err)
	}
}

func TestTheContextEndsAnAnswerThatIsOwed(t *testing.T) {
	p := newFakePipe()
	p.mute = true
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("asked to stop")
	go cancel(cause)
	if _, err := NewDriver(p, recipe()).Generate(ctx, Request{Prompt: prompt(3), Sampling: Greedy()}, nil); !errors.Is(err, cause) {
		t.Fatalf("got %v", err)
	}
}

func TestTextHoldsBackPartsOfCharacters(t *testing.T) {
	euro := []byte("€")
	text := NewText([][]byte{[]byte("a"), euro[:1], euro[1:], {0xff}})
	var got []string
	for _, id := range []int32{0, 1, 2, 1, 0, 3, 99, -1} {
		got = append(got, text.Add(id))
	}
	want := []string{"a", "", "€", "", "\uFFFDa", "\uFFFD", "", ""}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	text.Add(1)
	if end := text.End(); end != "\uFFFD" {
		t.Errorf("the unfinished end is %q", end)
	}
	if end := text.End(); end != "" {
		t.Errorf("ended twice with %q", end)
	}
}
