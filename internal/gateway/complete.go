package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/fault"
	"muster/internal/gateway/openai"
)

// atOnce is how many answers of one request are generated at the same time: the
// queue is for everybody.
const atOnce = 4

// complete answers /v1/completions, whole or as a stream. What failed on the way
// is never an answer: before the first byte it is told by the status, in a stream
// by an object in place of the rest.
func (b Backend) complete(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		problem(w, err, nil)
		return
	}
	c, err := openai.ParseCompletion(body)
	if err != nil {
		problem(w, err, nil)
		return
	}
	if c.Model != "" && c.Model != b.Model {
		problem(w, fault.New(fault.GatewayModelUnknown, component, "model", c.Model, "served", b.Model), nil)
		return
	}
	words := openai.Words{ID: "cmpl-" + random(), Created: time.Now().Unix(), Model: b.Model}
	if c.Stream {
		b.stream(w, r, c, words)
	} else {
		b.whole(w, r, c, words)
	}
}

// readBody takes a request's body, which must come in time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	err := control.SetReadDeadline(time.Now().Add(readWithin))
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(r.Body)
	}
	_ = control.SetReadDeadline(time.Time{}) // else the end of it would end a long answer
	if err != nil {
		return nil, fault.New(fault.RequestFieldInvalid, component, "field", "the body", "what", "did not come whole").Because(err)
	}
	return body, nil
}

func random() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// errStopped ends a generation whose text came to a stop.
var errStopped = errors.New("a stop was found")

// choice is an answer that was generated, and who is to be told whether it was
// delivered.
type choice struct {
	openai.Choice
	settle func(delivered bool)
}

// choose generates one answer and tells its text as it comes, up to where a stop
// begins.
func (b Backend) choose(ctx context.Context, c *openai.Completion, i int, tell func(string) error) (choice, error) {
	p := Prompt{Prompt: c.Prompt(i), Sampling: c.Sampling, MaxTokens: c.Max}
	if c.Seeded {
		p.Sampling.Seed += uint64(i % c.N)
	} else {
		p.Sampling.Seed = mathrand.Uint64()
	}
	stops := openai.NewStops(c.Stops)
	say := func(text string) error {
		if text == "" {
			return nil
		}
		return tell(text)
	}
	how := whole
	if c.Stream {
		how = flowing
	}
	done, settle, err := b.pledged(ctx, p, how, func(piece string) error {
		text, found := stops.Add(piece)
		if err := say(text); err != nil {
			return err
		}
		if found {
			return errStopped
		}
		return nil
	})
	switch {
	case errors.Is(err, errStopped):
		done.FinishReason = "stop"
	case err != nil:
		return choice{}, err
	default:
		if err := say(stops.End()); err != nil {
			settle(c.Stream) // all but the last of it came
			return choice{}, err
		}
	}
	return choice{openai.Choice{Index: i, Finish: done.FinishReason, Prompted: done.PromptTokens, Generated: len(done.Tokens)}, settle}, nil
}

// each generates all answers, a few at once; the first that fails ends the others.
func (b Backend) each(ctx context.Context, c *openai.Completion, tell func(i int, text string) error, ended func(choice) error) (openai.Usage, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	var mu sync.Mutex
	var usage openai.Usage
	for i := range c.Choices() {
		group.Go(func() error {
			done, err := b.choose(ctx, c, i, func(text string) error { return tell(i, text) })
			if err != nil {
				return err
			}
			mu.Lock()
			usage.Add(done.Choice, i%c.N == 0)
			mu.Unlock()
			return ended(done)
		})
	}
	return usage, group.Wait()
}

// whole answers with all or with nothing: what was generated for an answer that
// fails in another of its choices costs nothing.
func (b Backend) whole(w http.ResponseWriter, r *http.Request, c *openai.Completion, words openai.Words) {
	texts := make([]strings.Builder, c.Choices())
	ended := make([]choice, c.Choices())
	usage, err := b.each(r.Context(), c, func(i int, text string) error {
		texts[i].WriteString(text)
		return nil
	}, func(done choice) error {
		ended[done.Index] = done
		return nil
	})
	choices := make([]openai.Choice, len(ended))
	for i, done := range ended {
		choices[i] = done.Choice
		choices[i].Text = texts[i].String()
	}
	if err != nil {
		problem(w, err, nil)
	} else {
		answer(w, http.StatusOK, words.Completion(choices, usage))
	}
	for _, done := range ended {
		if done.settle != nil {
			done.settle(err == nil && r.Context().Err() == nil)
		}
	}
}

func (b Backend) stream(w http.ResponseWriter, r *http.Request, c *openai.Completion, words openai.Words) {
	s := &serverSent{w: w, control: http.NewResponseController(w)}
	usage, err := b.each(r.Context(), c, func(i int, text string) error {
		return s.send(words.Piece(i, text))
	}, func(done choice) error {
		done.settle(true)
		return s.send(words.End(done.Choice))
	})
	if err == nil && c.Usage {
		err = s.send(words.Usage(usage))
	}
	switch {
	case err == nil:
		_ = s.write([]byte("data: [DONE]\n\n")) // the client has gone: nobody to tell
	case !s.begun:
		problem(w, err, nil)
	default:
		_ = s.send(problemOf(err, nil))
	}
}

// serverSent writes events of text/event-stream, each at once.
type serverSent struct {
	control *http.ResponseController

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
}

func (s *serverSent) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.InternalUnexpected, component).Because(err)
	}
	return s.write(append(append([]byte("data: "), text...), "\n\n"...))
}

func (s *serverSent) write(event []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
		s.begun = true
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(event); err != nil {
		return err
	}
	return s.control.Flush()
}
