package engine

import (
	"math"
	"slices"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
)

// plain draws from the whole softmax.
var plain = wire.Sampling{Temperature: 1, TopP: 1, RepeatPenalty: 1, Logprobs: -1, Seed: 42}

func newSampler(t testing.TB, vocabulary int, s wire.Sampling) *Sampler {
	t.Helper()
	p, err := library(t).NewSampler(vocabulary, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func sample(t testing.TB, p *Sampler, logits []float32, position int) wire.Answer {
	t.Helper()
	before := slices.Clone(logits)
	a, err := p.Sample(logits, position)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(logits, before) {
		t.Fatal("the logits were changed")
	}
	return a
}

// drawn counts the tokens drawn at many positions.
func drawn(t testing.TB, p *Sampler, logits []float32, draws int) []int {
	t.Helper()
	counts := make([]int, len(logits))
	for position := range draws {
		counts[sample(t, p, logits, position).Token]++
	}
	return counts
}

// some lists the tokens that were drawn at all.
func some(counts []int) []int {
	var ids []int
	for id, n := range counts {
		if n > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// logs makes logits whose softmax is in the ratio of the weights.
func logs(weights ...float64) []float32 {
	logits := make([]float32, len(weights))
	for i, w := range weights {
		logits[i] = float32(math.Log(w))
	}
	return logits
}

func TestGreedyTakesTheSmallestAmongEquals(t *testing.T) {
	p := newSampler(t, 5, wire.Sampling{Logprobs: -1})
	if a := sample(t, p, []float32{1, 3, 2, 3, 3}, 0); a.Token != 1 {
		t.Errorf("token %d", a.Token)
	}
	q := newSampler(t, 5, wire.Sampling{PresencePenalty: 1, PenaltyLast: 8, Logprobs: -1})
	q.Accept(1)
	if a := sample(t, q, []float32{1, 3, 2, 3, 3}, 0); a.Token != 3 {
		t.Errorf("token %d after a penalty on 1", a.Token)
	}
}

func TestDrawFollowsTheSoftmax(t *testing.T) {
	const draws = 20000
	counts := drawn(t, newSampler(t, 4, plain), logs(1, 2, 3, 4), draws)
	for id, n := range counts {
		want := float64(id+1) / 10
		if got := float64(n) / draws; math.Abs(got-want) > 0.015 {
			t.Errorf("token %d: %.3f of the draws, want %.3f", id, got, want)
		}
	}
}

func TestTemperatureSharpensAndFlattens(t *testing.T) {
	const draws = 20000
	for temperature, want := range map[float32]float64{0.5: 9.0 / 10, 1: 3.0 / 4, 2: math.Sqrt(3) / (1 + math.Sqrt(3))} {
		s := plain
		s.Temperature = temperature
		counts := drawn(t, newSampler(t, 2, s), logs(1, 3), draws)
		if got := float64(counts[1]) / draws; math.Abs(got-want) > 0.015 {
			t.Errorf("temperature %v: %.3f, want %.3f", temperature, got, want)
		}
	}
}

// The samplers are applied in the order of the design; each case tells one order from
// its reverse by what can be drawn.
func TestSamplersStandInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*wire.Sampling)
		logits []float32
		accept []int32
		want   []int
	}{
		// After the penalty on 0, the two best are 1 and 2.
		{
			"penalties before top-k", func(s *wire.Sampling) { s.TopK, s.PresencePenalty, s.PenaltyLast = 2, 5, 8 },
			logs(5, 4, 3, 2),
			[]int32{0},
			[]int{1, 2},
		},
		// Of the two best, 0 alone holds 4/7 > 0.55; of all four it holds 0.4 and 1 is needed.
		{
			"top-k before top-p", func(s *wire.Sampling) { s.TopK, s.TopP = 2, 0.55 },
			logs(4, 3, 2, 1), nil,
			[]int{0},
		},
		// At temperature 1 the first holds 0.9; flattened by 10 all are needed.
		{
			"top-p before temperature", func(s *wire.Sampling) { s.TopP, s.Temperature = 0.8, 10 },
			logs(18, 1, 1), nil,
			[]int{0},
		},
		// 1 has a tenth of the best; flattened by 10 it would have 0.8 of it.
		{
			"min-p before temperature", func(s *wire.Sampling) { s.MinP, s.Temperature = 0.2, 10 },
			logs(10, 1, 5), nil,
			[]int{0, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := plain
			c.change(&s)
			p := newSampler(t, len(c.logits), s)
			p.Accept(c.accept...)
			if got := some(drawn(t, p, c.logits, 2000)); !slices.Equal(got, c.want) {
				t.Errorf("drew %v, want %v", got, c.want)
			}
		})
	}
}

func TestEdgesOfTheSettings(t *testing.T) {
	logits := logs(1, 4, 2, 4, 1)
	for _, c := range []struct {
		name   string
		change func(*wire.Sampling)
		want   []int
	}{
		{"all", func(*wire.Sampling) {}, []int{0, 1, 2, 3, 4}},
		{"top-k of all", func(s *wire.Sampling) { s.TopK = 5 }, []int{0, 1, 2, 3, 4}},
		{"top-k beyond all", func(s *wire.Sampling) { s.TopK = 1 << 40 }, []int{0, 1, 2, 3, 4}},
		{"top-k 3", func(s *wire.Sampling) { s.TopK = 3 }, []int{1, 2, 3}},
		{"min-p 1", func(s *wire.Sampling) { s.MinP = 1 }, []int{1, 3}},
		{"min-p next to nothing", func(s *wire.Sampling) { s.MinP = 1e-6 }, []int{0, 1, 2, 3, 4}},
	} {
		s := plain
		c.change(&s)
		if got := some(drawn(t, newSampler(t, 5, s), logits, 2000)); !slices.Equal(got, c.want) {
			t.Errorf("%s: drew %v, want %v", c.name, got, c.want)
		}
	}
	for name, change := range map[string]func(*wire.Sampling){
		"top-k 1":     func(s *wire.Sampling) { s.TopK = 1 },
		"tiny top-p":  func(s *wire.Sampling) { s.TopP = 1e-9 },
		"nearly cold": func(s *wire.Sampling) { s.Temperature = 1e-4 },
	} {
		s := plain
		change(&s)
		if got := some(drawn(t, newSampler(t, 3, s), logs(1, 2, 3), 500)); !slices.Equal(got, []int{2}) {
			t.Errorf("%s: drew %v, want the best alone", name, got)
		}
	}
	if a := sample(t, newSampler(t, 1, plain), []float32{-7}, 0); a.Token != 0 {
		t.Errorf("of one token %d was drawn", a.Token)
	}
}

func TestDrawDependsOnSeedAndPositionAlone(t *testing.T) {
	logits := make([]float32, 1000)
	run := func(seed uint64, positions []int) map[int]int32 {
		s := plain
		s.Seed = seed
		p := newSampler(t, len(logits), s)
		got := map[int]int32{}
		for _, position := range positions {
			got[position] = sample(t, p, logits, position).Token
		}
		return got
	}
	up := []int{0, 1, 2, 3, 4, 5, 6, 7, 1 << 20}
	down := slices.Clone(up)
	slices.Reverse(down)
	first, again, other := run(7, up), run(7, down), run(8, up)
	differ := 0
	for _, position := range up {
		if first[position] != again[position] {
			t.Errorf("position %d: %d, and in another order %d", position, first[position], again[position])
		}
		if first[position] != other[position] {
			differ++
		}
	}
	if differ < len(up)/2 {
		t.Errorf("another seed changed %d draws of %d", differ, len(up))
	}
	distinct := map[int32]bool{}
	for _, token := range first {
		distinct[token] = true
	}
	if len(distinct) < len(up)/2 {
		t.Errorf("%d positions drew %d tokens", len(up), len(distinct))
	}
}

func TestUniformFillsTheInterval(t *testing.T) {
	var tenths [10]int
	for seed := range uint64(100) {
		for position := range 100 {
			u := uniform(seed, position)
			if u < 0 || u >= 1 {
				t.Fatalf("uniform(%d, %d) = %v", seed, position, u)
			}
			tenths[int(10*u)]++
		}
	}
	for i, n := range tenths {
		if n < 900 || n > 1100 {
			t.Errorf("tenth %d: %d of 10000", i, n)
		}
	}
}

func TestPenaltiesSeePromptAndWindow(t *testing.T) {
	logits := []float32{2, 1.9, 1.8, 1}
	s := wire.Sampling{RepeatPenalty: 1.5, PenaltyLast: 2, Logprobs: -1}
	p := newSampler(t, 4, s)
	p.Accept(0) // the prompt
	if a := sample(t, p, logits, 0); a.Token != 1 {
		t.Errorf("with 0 in the prompt: %d", a.Token)
	}
	p.Accept(1)
	if a := sample(t, p, logits, 1); a.Token != 2 {
		t.Errorf("with 0 and 1 held: %d", a.Token)
	}
	p.Accept(2) // 0 is out of the window
	if a := sample(t, p, logits, 2); a.Token != 0 {
		t.Errorf("with 1 and 2 in the window: %d", a.Token)
	}
	f := newSampler(t, 4, wire.Sampling{FrequencyPenalty: 0.06, PenaltyLast: 8, Logprobs: -1})
	f.Accept(0)
	if a := sample(t, f, logits, 0); a.Token != 0 {
		t.Errorf("one occurrence: %d", a.Token)
	}
	f.Accept(0)
	if a := sample(t, f, logits, 0); a.Token != 1 {
		t.Errorf("two occurrences: %d", a.Token)
	}
	n := newSampler(t, 4, wire.Sampling{RepeatPenalty: 2, PresencePenalty: 0.5, PenaltyLast: 8, Logprobs: -1})
	n.Accept(0, 1)
	if a := sample(t, n, []float32{-1, -1.4, -2.6, -2.9}, 0); a.Token != 0 {
		t.Errorf("a penalty raises a negative logit: %d", a.Token) // -1*2-0.5 = -2.5 against -2.6
	}
}

func TestRewindForgetsWhatWasRolledBack(t *testing.T) {
	logits := []float32{2, 1.9, 1.8, 1}
	s := plain
	s.RepeatPenalty, s.FrequencyPenalty, s.PenaltyLast = 1.3, 0.4, 3
	history := []int32{3, 0, 0, 1, 2, 1}
	fresh, rolled := newSampler(t, 4, s), newSampler(t, 4, s)
	fresh.Accept(history[:4]...)
	rolled.Accept(history...)
	rolled.Rewind(history[:4])
	for position := range 200 {
		if a, b := sample(t, fresh, logits, position), sample(t, rolled, logits, position); a.Token != b.Token {
			t.Fatalf("position %d: %d, after a roll-back %d", position, a.Token, b.Token)
		}
	}
	rolled.Rewind(nil)
	if got := some(drawn(t, rolled, logits, 500)); len(got) != 4 {
		t.Errorf("drew %v after a roll-back to nothing", got)
	}
}

func TestLogprobsAreThoseOfTheRawLogits(t *testing.T) {
	s := plain
	s.Logprobs, s.TopK, s.Temperature, s.PresencePenalty, s.PenaltyLast = 10, 1, 0.2, 1, 4
	p := newSampler(t, 5, s)
	p.Accept(2)
	logits := logs(1, 3, 4, 3, 5)
	a := sample(t, p, logits, 0)
	want := []wire.TokenLogprob{{Token: 4, Logprob: -1.163151}, {Token: 2, Logprob: -1.386294}, {Token: 1, Logprob: -1.673976}, {Token: 3, Logprob: -1.673976}, {Token: 0, Logprob: -2.772589}}
	if len(a.Top) != len(want) {
		t.Fatalf("%d tops of 5 tokens", len(a.Top))
	}
	sum := 0.0
	for i, top := range a.Top {
		sum += math.Exp(float64(top.Logprob))
		if top.Token != want[i].Token || math.Abs(float64(top.Logprob-want[i].Logprob)) > 1e-5 {
			t.Errorf("top %d: %+v, want %+v", i, top, want[i])
		}
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("the probabilities sum to %v", sum)
	}
	if a.Token != 4 || a.Logprob != a.Top[0].Logprob {
		t.Errorf("token %d with %v", a.Token, a.Logprob)
	}
	s.Logprobs = 0
	if a := sample(t, newSampler(t, 5, s), logits, 0); a.Top != nil || math.Abs(float64(a.Logprob)+1.163151) > 1e-5 {
		t.Errorf("with no tops: %+v", a)
	}
	s.Logprobs = -1
	if a := sample(t, newSampler(t, 5, s), logits, 0); a.Top != nil || a.Logprob != 0 {
		t.Errorf("without logprobs: %+v", a)
	}
}

func TestLogprobsOfFarLogits(t *testing.T) {
	p := newSampler(t, 3, wire.Sampling{Logprobs: 3})
	a := sample(t, p, []float32{3e38, -3e38, 3e38}, 0)
	if a.Token != 0 || math.Abs(float64(a.Logprob)+math.Ln2) > 1e-6 || a.Top[2].Token != 1 {
		t.Errorf("%+v", a)
	}
}

func TestSamplerRefuses(t *testing.T) {
	nan := float32(math.NaN())
	for field, change := range map[string]func(*wire.Sampling){
		"temperature":       func(s *wire.Sampling) { s.Temperature = -1 },
		"top_k":             func(s *wire.Sampling) { s.TopK = -1 },
		"top_p":             func(s *wire.Sampling) { s.TopP = 0 },
		"min_p":             func(s *wire.Sampling) { s.MinP = 1.1 },
		"repeat_penalty":    func(s *wire.Sampling) { s.RepeatPenalty = -0.1 },
		"frequency_penalty": func(s *wire.Sampling) { s.FrequencyPenalty = nan },
		"presence_penalty":  func(s *wire.Sampling) { s.PresencePenalty = float32(math.Inf(1)) },
		"penalty_last":      func(s *wire.Sampling) { s.PenaltyLast = -1 },
		"logprobs":          func(s *wire.Sampling) { s.Logprobs = -2 },
	} {
		s := plain
		change(&s)
		_, err := library(t).NewSampler(8, s)
		if f := fault.From(err); err == nil || f.Code != fault.RequestSamplingInvalid || f.Attr("field") != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	s := plain
	s.Temperature = nan
	if _, err := library(t).NewSampler(8, s); err == nil {
		t.Error("a temperature of NaN was taken")
	}
	if _, err := library(t).NewSampler(0, plain); err == nil {
		t.Error("a vocabulary of nothing was taken")
	}
	if _, err := newSampler(t, 8, plain).Sample(make([]float32, 7), 0); fault.From(err).Code != fault.StageRowsMismatch {
		t.Errorf("7 logits of 8: %v", err)
	}
}

func BenchmarkSample(b *testing.B) {
	logits := make([]float32, 128000)
	for i := range logits {
		logits[i] = float32(uniform(1, i)) * 20
	}
	s := plain
	s.TopK, s.TopP, s.MinP, s.Temperature = 40, 0.95, 0.05, 0.8
	p := newSampler(b, len(logits), s)
	for i := 0; b.Loop(); i++ {
		sample(b, p, logits, i)
	}
}
