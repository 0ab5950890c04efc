// Package infer turns requests into records for the first stage of a chain,
// and the records of its last stage into tokens.
//
//	Generate ──submit──►┌────────┐──records──► Pipe ──► the stages
//	    ▲               │ Server │                         │
//	    └────tokens─────└────────┘◄─────answers── Pipe ◄───┘
//
// A Server serves as many requests at once as the recipe has slots; which of
// them get a part of the next record is decided by core/batch. It knows neither
// where the stages are nor how records reach them: a Pipe carries them.
package infer

import (
	"context"
	"fmt"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Pipe carries records to the first stage and from the last. Both calls block
// and end with ctx; each is made by one goroutine at a time.
type Pipe interface {
	Send(ctx context.Context, r *wire.Record) error
	Receive(ctx context.Context, r *wire.Record) error
}

// Request asks for an answer to a prompt.
type Request struct {
	Prompt    []int32 // ids; at least one
	Sampling  wire.Sampling
	MaxTokens int              // generated at most; 0: until the slot is full
	Ends      func(int32) bool // tells end-of-generation ids, at once and from any goroutine; nil knows none
	Logits    bool             // answers carry the raw logits
}

// answer is the mark of an item that is to be answered.
func (r Request) answer() wire.Mark {
	if r.Logits {
		return wire.MarkAnswer | wire.MarkLogits
	}
	return wire.MarkAnswer
}

// Finish says why a generation ended.
type Finish string

// The ends of a generation, named as in the OpenAI API.
const (
	Stop   Finish = "stop"   // the model ended it
	Length Finish = "length" // the limit of tokens or the slot's room did
)

// Result is what a generation came to.
type Result struct {
	Prompted   int           // tokens of the prompt
	Tokens     []int32       // generated and told, without the id that ended it
	Finish     Finish        // "" where it was given up
	Queued     time.Duration // from the request to its first record
	FirstToken time.Duration // from the first record sent to the first answer
	Decoding   time.Duration // from the first answer to the last
	Decoded    int           // answers after the first
}

// check refuses what no slot could serve.
func check(req Request, recipe wire.Recipe) error {
	if len(req.Prompt) == 0 {
		return fault.New(fault.RequestPromptEmpty, "")
	}
	if most := recipe.Share(); len(req.Prompt) >= most {
		return fault.New(fault.RequestPromptTooLong, "", "tokens", len(req.Prompt), "context", most)
	}
	return CheckSampling(req.Sampling)
}

func unexpected(format string, args ...any) error {
	return fault.New(fault.StageRecordInvalid, "chain", "what", fmt.Sprintf(format, args...))
}
