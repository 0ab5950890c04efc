package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/internal/core/admit"
	"muster/internal/fault"
)

// telling is a backend whose answers are pieces, each a token, and then an end.
func telling(t *testing.T, pieces []string, end error) (b Backend, prompts func() []Prompt) {
	t.Helper()
	seen := make(chan Prompt, 200)
	b = Backend{
		Model:    "tale",
		Admitted: func(context.Context) ([]admit.Blocker, error) { return nil, nil },
		Generate: func(_ context.Context, p Prompt, emit func(string) error) (Done, error) {
			seen <- p
			done := Done{PromptTokens: len(p.Prompt), FinishReason: "length"}
			for i, piece := range pieces {
				done.Tokens = append(done.Tokens, int32(i))
				if err := emit(piece); err != nil {
					return done, err
				}
			}
			return done, end
		},
	}
	return b, func() (all []Prompt) {
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		return all
	}
}

// events sends a request and returns what its stream tells.
func events(t *testing.T, b Backend, body string) (status int, all []string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/completions", strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	b.handler().ServeHTTP(w, r)
	if w.Code == http.StatusOK && w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream is of %q", w.Header().Get("Content-Type"))
	}
	for _, event := range strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
		data, is := strings.CutPrefix(event, "data: ")
		if w.Code == http.StatusOK && !is {
			t.Fatalf("an event is %q", event)
		}
		all = append(all, data)
	}
	return w.Code, all
}

type part struct {
	ID      string
	Choices []struct {
		Index  int
		Text   string
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error *struct{ Code, Hint string }
}

func parts(t *testing.T, events []string) (all []part) {
	t.Helper()
	for _, e := range events {
		var p part
		if err := json.Unmarshal([]byte(e), &p); err != nil {
			t.Fatalf("%q: %v", e, err)
		}
		all = append(all, p)
	}
	return all
}

// A stream tells the pieces as they come, then why each answer ended, its usage
// where that was asked for, and its end.
func TestAStreamTellsPieceByPiece(t *testing.T) {
	b, prompts := telling(t, []string{"On", "", "ce", " upon"}, nil)
	status, got := events(t, b, `{"prompt":["ab","c"],"stream":true,"stream_options":{"include_usage":true},"seed":7,"n":2}`)
	if status != http.StatusOK || got[len(got)-1] != "[DONE]" {
		t.Fatalf("%d %q", status, got)
	}
	texts, ends := map[int]string{}, map[int]string{}
	var last part
	for _, p := range parts(t, got[:len(got)-1]) {
		if last = p; !strings.HasPrefix(p.ID, "cmpl-") {
			t.Errorf("the id is %q", p.ID)
		}
		for _, c := range p.Choices {
			if ends[c.Index] != "" {
				t.Errorf("choice %d goes on after its end", c.Index)
			}
			if texts[c.Index] += c.Text; c.Finish != nil {
				ends[c.Index] = *c.Finish
			}
		}
	}
	for i := range 4 {
		if texts[i] != "Once upon" || ends[i] != "length" {
			t.Errorf("choice %d is %q, %q", i, texts[i], ends[i])
		}
	}
	if last.Usage == nil || last.Usage.Prompt != 3 || last.Usage.Completion != 16 || len(last.Choices) != 0 {
		t.Errorf("the usage is %+v", last.Usage)
	}
	seeds := map[string]bool{}
	for _, p := range prompts() {
		seeds[p.Prompt+string(rune('0'+p.Sampling.Seed))] = true
	}
	if len(seeds) != 4 || !seeds["ab7"] || !seeds["ab8"] || !seeds["c7"] || !seeds["c8"] {
		t.Errorf("the seeds are %v", seeds)
	}
}

// A stop ends the answer before itself, across pieces, and nothing behind it is
// generated; what only looked like one is told.
func TestAStopEndsAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		stop   string
		text   string
		finish string
		tokens int
	}{
		"within a piece": {`"nce"`, "O", "stop", 1},
		"across pieces":  {`["xx","ce upo"]`, "On", "stop", 2},
		"the first":      {`["on","e"]`, "Onc", "stop", 1},
		"none":           {`["on!","time"]`, "Once upon", "length", 3},
		"no list":        {`null`, "Once upon", "length", 3},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := telling(t, []string{"Once", " upo", "n"}, nil)
			body := `{"prompt":"x","stop":` + c.stop
			_, _, v := askOf(t, b, "POST", "/v1/completions", body+`}`)
			choice, usage := v["choices"].([]any)[0].(map[string]any), v["usage"].(map[string]any)
			if choice["text"] != c.text || choice["finish_reason"] != c.finish || usage["completion_tokens"] != float64(c.tokens) {
				t.Errorf("answered %v", v)
			}
			_, got := events(t, b, body+`,"stream":true}`)
			text := ""
			for _, p := range parts(t, got[:len(got)-1]) {
				text += p.Choices[0].Text
			}
			if text != c.text {
				t.Errorf("streamed %q", text)
			}
		})
	}
}

// A fault in the middle of a stream is told in it, by code and hint, and the
// stream has no clean end.
func TestAFaultInAStreamIsNoEnd(t *testing.T) {
	b, _ := telling(t, []string{"half"}, fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", ""))
	status, got := events(t, b, `{"prompt":"x","stream":true}`)
	last := parts(t, got)[len(got)-1]
	if status != http.StatusOK || last.Error == nil || last.Error.Code != string(fault.WorkerKilled) || last.Error.Hint == "" {
		t.Errorf("%d %q", status, got)
	}
	for _, p := range parts(t, got) {
		for _, c := range p.Choices {
			if c.Finish != nil {
				t.Errorf("it ends as if it were whole: %q", got)
			}
		}
	}
}

// A client that goes ends what is generated for it.
func TestAClientThatGoesEndsItsAnswer(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	b, _ := telling(t, nil, nil)
	b.Generate = func(ctx context.Context, _ Prompt, emit func(string) error) (Done, error) {
		_ = emit("a")
		leave()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return Done{}, context.Cause(ctx)
	}
	r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/completions", strings.NewReader(`{"prompt":"x","stream":true}`))
	r.RemoteAddr = "127.0.0.1:1"
	b.handler().ServeHTTP(httptest.NewRecorder(), r)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended by %v", err)
	}
}
