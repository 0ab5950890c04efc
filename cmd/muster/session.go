package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/wire"
)

// server answers prompts, one after the other, until its first fault.
type server interface {
	answer(ctx context.Context, prompt string, how wire.Sampling, most int, emit func(text string) error) (infer.Result, error)
	stages(ctx context.Context) ([]stageShown, error)
	Failed() <-chan struct{}
	Fault() *fault.Fault
}

// session answers prompts and prints what comes.
type session struct {
	std   stdio
	o     *options
	by    server
	ready time.Duration
}

// serve answers the prompt that was given, or each line of the input.
func (s *session) serve(ctx context.Context) error {
	if s.o.prompted() {
		return s.answer(ctx, s.o.prompt)
	}
	return s.lines(ctx)
}

// lines answers each line of the input until it ends.
func (s *session) lines(ctx context.Context) error {
	lines, failed := readLines(s.std.in)
	for {
		fmt.Fprintln(s.std.err, "prompt, or Ctrl-D to end:")
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.by.Failed():
			return s.by.Fault()
		case line, more := <-lines:
			if !more {
				return <-failed
			}
			if strings.TrimSpace(line) == "" {
				continue
			}
			err := s.answer(ctx, line)
			if ofThePrompt(err) {
				tell(s.std.err, err) // of this line alone
				continue
			}
			if err != nil {
				return err
			}
		}
	}
}

// ofThePrompt tells a fault of one prompt from one of the chain.
func ofThePrompt(err error) bool {
	for _, code := range []fault.Code{fault.RequestPromptTooLong, fault.RequestPromptEmpty, fault.RequestPromptInvalid} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// longestLine is the most bytes of a prompt read from the input.
const longestLine = 16 << 20

// readLines gives the lines of the input, and after the last of them why it
// ended. Its goroutine ends with the input, or with the process.
func readLines(r io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(r)
		in.Buffer(nil, longestLine)
		for in.Scan() {
			lines <- in.Text()
		}
		if err := in.Err(); err != nil {
			failed <- fault.New(fault.CLIInputFailed, "").Because(err)
		}
		close(failed)
	}()
	return lines, failed
}

// answered is what --json prints.
type answered struct {
	Text         string       `json:"text"`
	Tokens       []int32      `json:"tokens"`
	PromptTokens int          `json:"prompt_tokens"`
	FinishReason infer.Finish `json:"finish_reason"`
	Stages       []stageShown `json:"stages"`
	Timings      timings      `json:"timings"`
}

// stageShown is who holds which layers.
type stageShown struct {
	Name          string `json:"name"`
	Layers        [2]int `json:"layers"` // [start,end)
	ResidentBytes uint64 `json:"resident_bytes"`
}

type timings struct {
	ReadyMS         float64 `json:"ready_ms"`
	TTFTMS          float64 `json:"ttft_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

func (s *session) answer(ctx context.Context, prompt string) error {
	var text strings.Builder
	to := io.Writer(&text)
	if !s.o.json {
		// The model goes on where the prompt ends, so both are shown as one text,
		// from the moment that there is something to show.
		to = &echo{to: s.std.out, first: prompt}
	}
	res, err := s.by.answer(ctx, prompt, s.o.sampling, s.o.maxTokens, func(piece string) error {
		return written(io.WriteString(to, piece))
	})
	if e, plain := to.(*echo); plain && e.first == "" {
		if werr := written(fmt.Fprintln(s.std.out)); err == nil {
			err = werr
		}
	}
	if err != nil {
		return err
	}
	return s.account(ctx, text.String(), res)
}

// echo writes the prompt before the first of an answer.
type echo struct {
	to    io.Writer
	first string
}

func (e *echo) Write(b []byte) (int, error) {
	if e.first != "" {
		if _, err := io.WriteString(e.to, e.first); err != nil {
			return 0, err
		}
		e.first = ""
	}
	return e.to.Write(b)
}

// account prints the figures of an answer.
func (s *session) account(ctx context.Context, text string, res infer.Result) error {
	t := timings{ReadyMS: millis(s.ready), TTFTMS: millis(res.FirstToken), TokensPerSecond: perSecond(res)}
	if !s.o.json {
		fmt.Fprintf(s.std.err, "%d tokens in, %d out (%s), first after %.1f ms, then %.1f a second\n",
			res.Prompted, len(res.Tokens), res.Finish, t.TTFTMS, t.TokensPerSecond)
		return nil
	}
	stages, err := s.by.stages(ctx)
	if err != nil {
		return err
	}
	tokens := res.Tokens
	if tokens == nil {
		tokens = []int32{}
	}
	return printJSON(s.std, answered{
		Text: text, Tokens: tokens, PromptTokens: res.Prompted, FinishReason: res.Finish, Stages: stages, Timings: t,
	})
}

func perSecond(res infer.Result) float64 {
	if res.Decoding <= 0 {
		return 0
	}
	return float64(res.Decoded) / res.Decoding.Seconds()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
