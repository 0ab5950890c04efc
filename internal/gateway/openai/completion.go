// Package openai is the form of OpenAI's API: what its requests mean for Muster,
// and how answers are worded. It decides nothing and does no I/O.
package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"muster/internal/fault"
	"muster/internal/wire"
)

const (
	component = "gateway"

	defaultMax  = 16  // tokens of a completion for which no number is given
	mostStops   = 4   // texts
	mostChoices = 128 // of one request, prompts times n
	penaltyLast = 64  // tokens that the penalties look back on

	leastTopP = 1e-6 // which keeps one token; of none nothing could be drawn
)

// Completion is a request of /v1/completions, checked.
type Completion struct {
	Model    string // "": whichever is served
	Prompts  []string
	N        int // answers to each prompt
	Max      int // tokens of each
	Stops    []string
	Sampling wire.Sampling
	Seeded   bool // Sampling.Seed was given
	Stream   bool
	Usage    bool // a stream ends with its usage
}

// Choices is how many answers are asked for.
func (c *Completion) Choices() int { return len(c.Prompts) * c.N }

// Prompt is what a choice is an answer to: the first N are of the first.
func (c *Completion) Prompt(choice int) string { return c.Prompts[choice/c.N] }

// completion is the request as it comes. Fields that are not here are ignored.
type completion struct {
	Model            string          `json:"model"`
	Prompt           json.RawMessage `json:"prompt"`
	N                *int            `json:"n"`
	MaxTokens        *int            `json:"max_tokens"`
	Stop             json.RawMessage `json:"stop"`
	Stream           bool            `json:"stream"`
	StreamOptions    *streamOptions  `json:"stream_options"`
	Temperature      *float64        `json:"temperature"`
	TopP             *float64        `json:"top_p"`
	TopK             *int            `json:"top_k"`
	MinP             *float64        `json:"min_p"`
	PresencePenalty  *float64        `json:"presence_penalty"`
	FrequencyPenalty *float64        `json:"frequency_penalty"`
	Seed             *int64          `json:"seed"`

	// Asked for and not served yet: refused, since leaving it out would be
	// another answer.
	Echo      bool            `json:"echo"`
	Logprobs  *int            `json:"logprobs"`
	LogitBias json.RawMessage `json:"logit_bias"`
	BestOf    *int            `json:"best_of"`
	Suffix    string          `json:"suffix"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// ParseCompletion reads a request. Fault: request.field_invalid, which names the
// field.
func ParseCompletion(body []byte) (*Completion, error) {
	var in completion
	if err := json.Unmarshal(body, &in); err != nil {
		var of *json.UnmarshalTypeError
		if errors.As(err, &of) && of.Field != "" {
			return nil, refuse(of.Field, "cannot be a "+of.Value)
		}
		return nil, refuse("the body", "is no JSON object")
	}
	c := &Completion{Model: in.Model, N: 1, Max: defaultMax, Stream: in.Stream}
	for _, look := range []func(*completion, *Completion) error{unserved, prompts, numbers, stops, sampling} {
		if err := look(&in, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func refuse(field, what string) error {
	return fault.New(fault.RequestFieldInvalid, component, "field", field, "what", what)
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func unserved(in *completion, _ *Completion) error {
	const later = "is not served yet: leave it out"
	switch {
	case in.Echo:
		return refuse("echo", later)
	case in.Logprobs != nil:
		return refuse("logprobs", later)
	case given(in.LogitBias) && string(bytes.TrimSpace(in.LogitBias)) != "{}":
		return refuse("logit_bias", later)
	case in.BestOf != nil && *in.BestOf != 1 && (in.N == nil || *in.BestOf != *in.N):
		return refuse("best_of", later)
	case in.Suffix != "":
		return refuse("suffix", later)
	}
	return nil
}

func prompts(in *completion, c *Completion) error {
	const want = "must be a text with something in it, or a list of such"
	var err error
	if c.Prompts, err = texts(in.Prompt); err != nil || len(c.Prompts) == 0 {
		return refuse("prompt", want)
	}
	for _, p := range c.Prompts {
		if p == "" {
			return refuse("prompt", want)
		}
	}
	return nil
}

// texts reads a text or a list of texts; nothing is an empty list.
func texts(raw json.RawMessage) ([]string, error) {
	if !given(raw) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var all []string
	return all, json.Unmarshal(raw, &all)
}

func numbers(in *completion, c *Completion) error {
	if in.N != nil {
		c.N = *in.N
	}
	if in.MaxTokens != nil {
		c.Max = *in.MaxTokens
	}
	switch {
	case c.N < 1:
		return refuse("n", "must be 1 or more")
	case c.N > mostChoices || c.Choices() > mostChoices:
		return refuse("n", fmt.Sprintf("with %d prompts makes more than %d answers", len(c.Prompts), mostChoices))
	case c.Max < 1 || c.Max > math.MaxInt32:
		return refuse("max_tokens", "must be 1 or more")
	case in.StreamOptions != nil && !in.Stream:
		return refuse("stream_options", "is of streams: set stream, or leave it out")
	}
	c.Usage = in.StreamOptions != nil && in.StreamOptions.IncludeUsage
	return nil
}

func stops(in *completion, c *Completion) error {
	all, err := texts(in.Stop)
	if err != nil || len(all) > mostStops {
		return refuse("stop", fmt.Sprintf("must be a text, or a list of at most %d", mostStops))
	}
	for _, t := range all {
		if t == "" {
			return refuse("stop", "has a text with nothing in it")
		}
	}
	c.Stops = all
	return nil
}

func sampling(in *completion, c *Completion) error {
	c.Sampling = wire.Sampling{Temperature: 1, TopP: 1, RepeatPenalty: 1, Logprobs: -1}
	for _, f := range []struct {
		name       string
		from       *float64
		least, top float64
		to         *float32
	}{
		{"temperature", in.Temperature, 0, 2, &c.Sampling.Temperature},
		{"top_p", in.TopP, leastTopP, 1, &c.Sampling.TopP},
		{"min_p", in.MinP, 0, 1, &c.Sampling.MinP},
		{"presence_penalty", in.PresencePenalty, -2, 2, &c.Sampling.PresencePenalty},
		{"frequency_penalty", in.FrequencyPenalty, -2, 2, &c.Sampling.FrequencyPenalty},
	} {
		if f.from == nil {
			continue
		}
		if *f.from < f.least || *f.from > f.top {
			return refuse(f.name, fmt.Sprintf("must be from %g to %g", f.least, f.top))
		}
		*f.to = float32(*f.from)
	}
	if in.TopK != nil {
		if *in.TopK < 0 || *in.TopK > math.MaxInt32 {
			return refuse("top_k", "must be 0, which is off, or more")
		}
		c.Sampling.TopK = *in.TopK
	}
	if in.Seed != nil {
		c.Sampling.Seed, c.Seeded = uint64(*in.Seed), true
	}
	if c.Sampling.PresencePenalty != 0 || c.Sampling.FrequencyPenalty != 0 {
		c.Sampling.PenaltyLast = penaltyLast
	}
	return nil
}
