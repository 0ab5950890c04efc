package chain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/wire"
)

// tape is a pipe that keeps what went through it.
type tape struct {
	infer.Pipe
	mu      sync.Mutex
	sent    []wire.Record
	answers []wire.Record
}

func (p *tape) Send(ctx context.Context, r *wire.Record) error {
	kept := *r
	kept.Items, kept.Tokens = slices.Clone(r.Items), slices.Clone(r.Tokens)
	p.mu.Lock()
	p.sent = append(p.sent, kept)
	p.mu.Unlock()
	return p.Pipe.Send(ctx, r)
}

func (p *tape) Receive(ctx context.Context, r *wire.Record) error {
	err := p.Pipe.Receive(ctx, r)
	if err == nil {
		kept := *r
		kept.Items, kept.Answers = slices.Clone(r.Items), slices.Clone(r.Answers)
		p.mu.Lock()
		p.answers = append(p.answers, kept)
		p.mu.Unlock()
	}
	return err
}

// taped starts a chain whose records are kept.
func taped(t *testing.T, cfg Config) (*Chain, *tape) {
	t.Helper()
	c := start(t, cfg)
	c.server.Close(fault.New(fault.RunInterrupted, "")) // nothing was asked yet
	p := &tape{Pipe: c.pipe.Load()}
	c.serve(p)
	return c, p
}

// asking is one client: how long its prompt is, how it is drawn, and how much
// of it is wanted.
type asking struct {
	prompt, most int
	sampling     wire.Sampling
}

// crowd is clients that are unlike in every respect.
func crowd() []asking {
	s := samplings()
	return []asking{
		{prompt: 1, most: 60, sampling: s["greedy"]},
		{prompt: 150, most: 20, sampling: s["all samplers"]},
		{prompt: 40, most: 40, sampling: s["seed 7 at 0.8"]},
		{prompt: 7, most: 30, sampling: s["all samplers"]},
		{prompt: 90, most: 50, sampling: s["greedy"]},
		{prompt: 64, most: 25, sampling: s["seed 7 at 0.8"]},
		{prompt: 3, most: 70, sampling: s["greedy"]},
	}
}

// made is a prompt of n tokens that every model here has.
func made(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(3 + i*7%200)
	}
	return ids
}

// heard is what a client got.
type heard struct {
	tokens []int32
	logits [][]float32
	finish infer.Finish
}

// ask has one client answered, to its limit whatever the model says.
func ask(t *testing.T, c *Chain, a asking) heard {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var h heard
	res, err := c.Generate(ctx, infer.Request{
		Prompt: made(a.prompt), Sampling: a.sampling, MaxTokens: a.most, Logits: true,
		Ends: func(int32) bool { return false },
	}, func(_ string, w wire.Answer) error {
		if w.Token >= 0 {
			h.logits = append(h.logits, w.Logits)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	h.tokens, h.finish = res.Tokens, res.Finish
	return h
}

// askAll has all clients answered at once.
func askAll(t *testing.T, c *Chain, all []asking) []heard {
	got := make([]heard, len(all))
	var clients sync.WaitGroup
	for i, a := range all {
		clients.Go(func() { got[i] = ask(t, c, a) })
	}
	clients.Wait()
	return got
}

// most is the greatest number of a kind that a record has.
func (p *tape) most(of func(wire.Record) int) int {
	n := 0
	for _, r := range p.sent {
		n = max(n, of(r))
	}
	return n
}

// Under load, whatever the scheduler came to do, the chain gives batch for batch
// the very bits that one unsliced context gives when it is fed the same batches.
func TestACrowdReplaysBitForBit(t *testing.T) {
	path := tale(t)
	for _, workers := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			cfg := config(t, path, workers)
			cfg.Recipe.Slots = 4
			c, p := taped(t, cfg)
			for i, h := range askAll(t, c, crowd()) {
				if want := crowd()[i].most; len(h.tokens) != want || h.finish != infer.Length {
					t.Errorf("client %d got %d tokens of %d, %s", i, len(h.tokens), want, h.finish)
				}
			}
			c.Stop()
			if together := p.most(func(r wire.Record) int { return len(r.Items) }); together < 2 {
				t.Error("no two clients were served together")
			}
			whole := config(t, path, 1)
			whole.Whole, whole.Recipe.Slots = true, 4
			ref := start(t, whole)
			rows := 0
			for i, answered := range p.answers {
				want := exchange(t, ref, &p.sent[i])
				if len(want) != len(answered.Answers) {
					t.Fatalf("record %d has %d answers, the unsliced model gives %d", i, len(answered.Answers), len(want))
				}
				for k, a := range answered.Answers {
					if a.Token != want[k].Token || len(a.Logits) == 0 || !sameBits(a.Logits, want[k].Logits) {
						t.Fatalf("answer %d of record %d differs", k, i)
					}
					rows++
				}
			}
			if rows < 200 {
				t.Errorf("%d rows were compared", rows)
			}
		})
	}
}

// With the recipe deterministic a request has the same bits alone and in a
// crowd, at any split, whoever had its slot before.
func TestDeterministicIsTheSameAloneAndInACrowd(t *testing.T) {
	path := tale(t)
	all := crowd()
	var want []heard
	for _, workers := range []int{1, 2, 3} {
		cfg := config(t, path, workers)
		cfg.Recipe.Slots, cfg.Recipe.Deterministic = 4, true
		c, p := taped(t, cfg)
		if want == nil {
			for _, a := range all {
				want = append(want, ask(t, c, a))
			}
		}
		for i, h := range askAll(t, c, all) {
			if !slices.Equal(h.tokens, want[i].tokens) || !slices.EqualFunc(h.logits, want[i].logits, sameBits) {
				t.Errorf("%d workers: client %d got in a crowd\n %v, alone\n %v", workers, i, h.tokens, want[i].tokens)
			}
		}
		c.Stop()
		if slots := p.most(func(r wire.Record) int {
			n := 0
			for _, it := range r.Items {
				n += min(1, it.Count)
			}
			return n
		}); slots != 1 {
			t.Errorf("a batch is of %d slots", slots)
		}
	}
}
