// Package infer turns a request into records for the first stage of a chain,
// and the records of its last stage into tokens.
//
// It knows neither where the stages are nor how records reach them: a Pipe
// carries them. One Driver serves one slot after another; its owner calls
// Generate from one goroutine.
package infer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Pipe carries records to the first stage and from the last. Both calls block
// and end with ctx.
type Pipe interface {
	Send(ctx context.Context, r *wire.Record) error
	Receive(ctx context.Context, r *wire.Record) error
}

// Request asks for an answer to a prompt.
type Request struct {
	Prompt    []int32 // ids; at least one
	Sampling  wire.Sampling
	MaxTokens int              // generated at most; 0: until the context is full
	Ends      func(int32) bool // tells end-of-generation ids
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
	Length Finish = "length" // the limit of tokens or the context did
)

// Result is what a generation came to.
type Result struct {
	Prompted   int     // tokens of the prompt
	Tokens     []int32 // generated, without the id that ended it
	Finish     Finish
	FirstToken time.Duration // from the first record sent to the first answer
	Decoding   time.Duration // from the first answer to the last
	Decoded    int           // answers after the first
}

// Driver feeds one chain.
type Driver struct {
	pipe       Pipe
	recipe     wire.Recipe
	sequence   uint64
	generation uint32
	next       int32 // position after the last token sent
	in         wire.Record
}

// NewDriver drives the chain behind pipe, whose stages all run recipe.
func NewDriver(pipe Pipe, recipe wire.Recipe) *Driver {
	return &Driver{pipe: pipe, recipe: recipe}
}

// Generate answers req through slot 0, calling emit for every token as it
// comes (without the one that ends the generation); an error of emit ends it.
// After an error the chain's slots are in doubt: the run is over.
func (d *Driver) Generate(ctx context.Context, req Request, emit func(wire.Answer) error) (Result, error) {
	if err := d.check(req); err != nil {
		return Result{}, err
	}
	d.generation++
	start := time.Now()
	first, err := d.prompt(ctx, req)
	if err != nil {
		return Result{}, err
	}
	res := Result{Prompted: len(req.Prompt), FirstToken: time.Since(start)}
	if err := d.decode(ctx, req, first, &res, emit); err != nil {
		return res, err
	}
	res.Decoding = time.Since(start) - res.FirstToken
	return res, d.end(ctx)
}

// prompt sends the prompt and waits for the answer to its last token. Sender
// and receiver work at once, so that a full ring cannot hold up either, and the
// sender has ended before anything else is sent.
func (d *Driver) prompt(ctx context.Context, req Request) (wire.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := d.prefill(ctx, req); err != nil {
			cancel(err)
		}
	}()
	first, err := d.await(ctx, len(req.Prompt))
	if err != nil {
		cancel(err)
	}
	<-sent
	return first, context.Cause(ctx)
}

func (d *Driver) check(req Request) error {
	if len(req.Prompt) == 0 {
		return fault.New(fault.RequestPromptEmpty, "")
	}
	if len(req.Prompt) >= d.recipe.Context {
		return fault.New(fault.RequestPromptTooLong, "", "tokens", len(req.Prompt), "context", d.recipe.Context)
	}
	return CheckSampling(req.Sampling)
}

// prefill sends the prompt in chunks without waiting for answers between them:
// the stages work on different chunks at once.
func (d *Driver) prefill(ctx context.Context, req Request) error {
	extra, err := json.Marshal(wire.SlotOpen{Sampling: req.Sampling, Prompt: req.Prompt})
	if err != nil {
		return fmt.Errorf("encode sampler settings: %w", err)
	}
	marks := wire.MarkOpen
	for at := 0; at < len(req.Prompt); {
		n := min(d.recipe.Chunk, len(req.Prompt)-at)
		if at+n == len(req.Prompt) {
			marks |= req.answer()
		}
		it := wire.Item{Marks: marks, Position: int32(at), Count: n, Extra: extra}
		if err := d.send(ctx, it, req.Prompt[at:at+n]); err != nil {
			return err
		}
		marks, extra = 0, nil
		at += n
	}
	return nil
}

// await reads records until the one that answers the prompt's last token.
func (d *Driver) await(ctx context.Context, prompt int) (wire.Answer, error) {
	for range (prompt + d.recipe.Chunk - 1) / d.recipe.Chunk {
		r, err := d.receive(ctx)
		if err != nil {
			return wire.Answer{}, err
		}
		if len(r.Answers) > 0 {
			return r.Answers[0], nil
		}
	}
	return wire.Answer{}, unexpected("the prompt got no answer")
}

func (d *Driver) decode(ctx context.Context, req Request, a wire.Answer, res *Result, emit func(wire.Answer) error) error {
	for {
		if req.Ends != nil && req.Ends(a.Token) {
			res.Finish = Stop
			return nil
		}
		res.Tokens = append(res.Tokens, a.Token)
		if err := emit(a); err != nil {
			return err
		}
		at := len(req.Prompt) + len(res.Tokens) - 1
		if len(res.Tokens) == req.MaxTokens || at >= d.recipe.Context {
			res.Finish = Length
			return nil
		}
		it := wire.Item{Marks: req.answer(), Position: int32(at), Count: 1}
		if err := d.send(ctx, it, []int32{a.Token}); err != nil {
			return err
		}
		r, err := d.receive(ctx)
		if err != nil {
			return err
		}
		if len(r.Answers) != 1 {
			return unexpected("a step got %d answers", len(r.Answers))
		}
		a = r.Answers[0]
		res.Decoded++
	}
}

// end frees the slot on every stage and waits for the last one to say so.
func (d *Driver) end(ctx context.Context) error {
	if err := d.send(ctx, wire.Item{Marks: wire.MarkEnd, Position: d.next}, nil); err != nil {
		return err
	}
	r, err := d.receive(ctx)
	if err != nil {
		return err
	}
	if len(r.Items) != 1 || r.Items[0].Marks&wire.MarkEnd == 0 {
		return unexpected("the end of a slot was not confirmed")
	}
	return nil
}

func (d *Driver) send(ctx context.Context, it wire.Item, ids []int32) error {
	it.Generation = d.generation
	r := wire.Record{ID: d.sequence + 1, Sequence: d.sequence, Kind: wire.KindTokens, Items: []wire.Item{it}, Tokens: ids}
	d.sequence++
	d.next = it.Position + int32(it.Count)
	return d.pipe.Send(ctx, &r)
}

// receive reads the next answers record, which must be of this generation.
func (d *Driver) receive(ctx context.Context) (*wire.Record, error) {
	if err := d.pipe.Receive(ctx, &d.in); err != nil {
		return nil, err
	}
	for _, it := range d.in.Items {
		if it.Generation != d.generation {
			return nil, unexpected("an answer is of generation %d, not %d", it.Generation, d.generation)
		}
	}
	return &d.in, nil
}

func unexpected(format string, args ...any) error {
	return fault.New(fault.StageRecordInvalid, "chain", "what", fmt.Sprintf(format, args...))
}
