package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Sampler chooses tokens for one slot. In this order: penalties, top-k, top-p, min-p,
// temperature, all llama.cpp's own; then a draw in Go whose random number depends on
// seed and position alone, so that a slot that is rolled back repeats itself and slots
// do not disturb one another. At temperature 0 the token with the greatest logit after
// the penalties is taken, the smallest id among equals.
type Sampler struct {
	settings   wire.Sampling
	vocabulary int
	penalties  llama.Sampler // 0 where there are none
	chain      llama.Sampler // top-k to temperature; 0 at temperature 0
	candidates []llama.TokenData
	weights    []float64
}

// coldest is the least temperature that is not taken as 0: logits divided by less
// leave the range of floats, and the likeliest token is certain long before.
const coldest = 1e-6

// NewSampler makes the sampler of a slot for a vocabulary of that many tokens.
//
// Faults: RequestSamplingInvalid, naming the field.
func (l *Library) NewSampler(vocabulary int, s wire.Sampling) (*Sampler, error) {
	if vocabulary < 1 {
		return nil, fault.New(fault.ModelVocabularyMissing, component)
	}
	if err := checkSampling(s); err != nil {
		return nil, err
	}
	if s.RepeatPenalty == 0 {
		s.RepeatPenalty = 1
	}
	if s.Temperature < coldest {
		s.Temperature = 0
	}
	p := &Sampler{settings: s, vocabulary: vocabulary}
	if s.PenaltyLast > 0 && (s.RepeatPenalty != 1 || s.FrequencyPenalty != 0 || s.PresencePenalty != 0) {
		p.penalties = llama.SamplerInitPenalties(int32(vocabulary), int32(s.PenaltyLast),
			s.RepeatPenalty, s.FrequencyPenalty, s.PresencePenalty)
		if p.penalties == 0 {
			return nil, samplerFault()
		}
	}
	if s.Temperature > 0 {
		if err := p.link(); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// link builds the chain. Settings that would change nothing are left out.
func (p *Sampler) link() error {
	s := p.settings
	p.chain = llama.SamplerChainInit(llama.SamplerChainParams{NoPerf: 1})
	if p.chain == 0 {
		return samplerFault()
	}
	var links []llama.Sampler
	if s.TopK > 0 {
		links = append(links, llama.SamplerInitTopK(int32(min(s.TopK, p.vocabulary))))
	}
	if s.TopP < 1 {
		links = append(links, llama.SamplerInitTopP(s.TopP, 1))
	}
	if s.MinP > 0 {
		links = append(links, llama.SamplerInitMinP(s.MinP, 1))
	}
	links = append(links, llama.SamplerInitTemp(s.Temperature))
	for _, link := range links {
		if link == 0 {
			return samplerFault()
		}
		llama.SamplerChainAdd(p.chain, link) // the chain frees it
	}
	return nil
}

func samplerFault() error {
	return fault.New(fault.InternalUnexpected, component).Because(errors.New("llama.cpp made no sampler"))
}

// checkSampling refuses settings that have no meaning.
func checkSampling(s wire.Sampling) error {
	within := func(v, low, high float32) bool { return v >= low && v <= high } // false for NaN
	for _, c := range []struct {
		ok    bool
		field string
		value any
		want  string
	}{
		{within(s.Temperature, 0, 100), "temperature", s.Temperature, "0 (greedy) to 100"},
		{s.TopK >= 0, "top_k", s.TopK, "0 (off) or more"},
		{s.Temperature == 0 || (s.TopP > 0 && s.TopP <= 1), "top_p", s.TopP, "more than 0, at most 1 (off)"},
		{within(s.MinP, 0, 1), "min_p", s.MinP, "0 (off) to 1"},
		{within(s.RepeatPenalty, 0, 100), "repeat_penalty", s.RepeatPenalty, "more than 0 to 100; 1 is off"},
		{within(s.FrequencyPenalty, -100, 100), "frequency_penalty", s.FrequencyPenalty, "-100 to 100; 0 is off"},
		{within(s.PresencePenalty, -100, 100), "presence_penalty", s.PresencePenalty, "-100 to 100; 0 is off"},
		{s.PenaltyLast >= 0 && s.PenaltyLast <= math.MaxInt32, "penalty_last", s.PenaltyLast, "0 (off) or more"},
		{s.Logprobs >= -1 && s.Logprobs <= math.MaxInt16, "logprobs", s.Logprobs, "-1 (none) to 32767"},
	} {
		if !c.ok {
			return fault.New(fault.RequestSamplingInvalid, component,
				"field", c.field, "value", c.value, "want", fmt.Sprintf("%s is %s", c.field, c.want))
		}
	}
	return nil
}

// Accept tells the penalties which tokens the slot now holds: the prompt's first, then
// each one sampled.
func (p *Sampler) Accept(ids ...int32) {
	if p.penalties == 0 {
		return
	}
	for _, id := range ids {
		llama.SamplerAccept(p.penalties, llama.Token(id))
	}
}

// Rewind forgets every token and accepts those of history: what a slot that was rolled
// back now holds, from its first token.
func (p *Sampler) Rewind(history []int32) {
	if p.penalties == 0 {
		return
	}
	llama.SamplerReset(p.penalties)
	p.Accept(history[max(0, len(history)-p.settings.PenaltyLast):]...)
}

// Sample chooses the token that comes after the one at position. It does not accept
// it. logits, one for each token, are not changed.
//
// Faults: StageRowsMismatch for another number of logits.
func (p *Sampler) Sample(logits []float32, position int) (wire.Answer, error) {
	if len(logits) != p.vocabulary {
		return wire.Answer{}, fault.New(fault.StageRowsMismatch, component, "got", len(logits), "want", p.vocabulary)
	}
	var a wire.Answer
	if p.penalties == 0 && p.chain == 0 {
		a.Token = argmax(logits)
	} else {
		a.Token = p.choose(logits, position)
	}
	if p.settings.Logprobs >= 0 {
		a.Logprob, a.Top = logprobs(logits, a.Token, p.settings.Logprobs)
	}
	return a, nil
}

// choose runs the samplers over all tokens and draws from what they leave.
func (p *Sampler) choose(logits []float32, position int) int32 {
	if p.candidates == nil {
		p.candidates = make([]llama.TokenData, p.vocabulary)
	}
	for id, l := range logits {
		p.candidates[id] = llama.TokenData{Id: llama.Token(id), Logit: l}
	}
	all := &llama.TokenDataArray{Data: &p.candidates[0], Size: uint64(len(p.candidates)), Selected: -1}
	llama.SamplerApply(p.penalties, all)
	if p.chain == 0 {
		return greatest(p.candidates)
	}
	llama.SamplerApply(p.chain, all)
	left := p.candidates[:min(all.Size, uint64(len(p.candidates)))]
	return p.draw(left, uniform(p.settings.Seed, position))
}

// Close frees what the sampler holds. A second call does nothing.
func (p *Sampler) Close() {
	llama.SamplerFree(p.penalties)
	llama.SamplerFree(p.chain)
	p.penalties, p.chain = 0, 0
}
