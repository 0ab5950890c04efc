package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/id"
)

// charged is an answer that is delivered where there is one.
func charged(ctx context.Context, b Backend, p Prompt, how delivery, emit func(string) error) (Done, error) {
	done, settle, err := b.pledged(ctx, p, how, emit)
	settle(true)
	return done, err
}

// Of several answers that are told whole nothing is charged where one fails: none
// of them was delivered. In a stream those that ended were.
func TestAnswersThatAreNotDeliveredCostNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fields  string
		charged int64
	}{"whole": {"", 0}, "as a stream": {`,"stream":true`, promptTokens + 1}} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t)
			k, secret := h.key(t, 100)
			answered := make(chan struct{})
			h.Generate = func(ctx context.Context, p Prompt, emit func(string) error) (Done, error) {
				if err := p.Accept(credit.In(4096, id.RunID{7}, promptTokens, p.MaxTokens)); err != nil {
					return Done{}, err
				}
				if p.Prompt == "second" {
					<-answered
					time.Sleep(50 * time.Millisecond) // the first is told meanwhile
					return Done{}, fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", "")
				}
				defer close(answered)
				return Done{Tokens: []int32{1}, PromptTokens: promptTokens, FinishReason: "stop"}, emit("a")
			}
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/completions",
				strings.NewReader(`{"prompt":["first","second"],"max_tokens":5`+c.fields+`}`))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			h.handler().ServeHTTP(w, r)
			if strings.Contains(w.Body.String(), "[DONE]") || !strings.Contains(w.Body.String(), "worker.killed") {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			if kinds, balance := h.entries(t, k); len(kinds) != 4 || balance != 100-c.charged {
				t.Errorf("the ledger has %v and leaves %d", kinds, balance)
			}
		})
	}
}

// Who leaves pays what came until then, which is nothing of an answer that was
// to come whole; and who is left by the gateway pays nothing.
func TestAClientThatLeavesPaysWhatCame(t *testing.T) {
	errGone := errors.New("the pipe is broken")
	for name, c := range map[string]struct {
		how     delivery
		refuses bool // emit says that the client is gone; else its context does
		closing bool
		charged int64
	}{
		"by its context, flowing":      {how: flowing, charged: promptTokens + 3},
		"by its context, whole":        {how: whole},
		"by a write, flowing":          {how: flowing, refuses: true, charged: promptTokens + 3},
		"an answer that is cut short":  {how: whole, refuses: true, charged: promptTokens + 3},
		"left by the gateway, flowing": {how: flowing, closing: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t)
			k, _ := h.key(t, 100)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), keyOfRequest{}, k))
			defer cancel()
			h.closing = func() bool { return c.closing }
			h.during = func(token int) (bool, error) {
				if token == 3 && !c.refuses {
					cancel()
					return false, fault.New(fault.RunInterrupted, "").Because(ctx.Err())
				}
				return false, nil
			}
			took := 0
			_, err := charged(ctx, h.Backend, Prompt{Prompt: "Once", MaxTokens: 5}, c.how, func(string) error {
				if took++; took == 4 {
					return errGone
				}
				return nil
			})
			if err == nil || c.refuses != errors.Is(err, errGone) {
				t.Errorf("it ended by %v", err)
			}
			if kinds, balance := h.entries(t, k); len(kinds) != 2 || balance != 100-c.charged {
				t.Errorf("the ledger has %v and leaves %d", kinds, balance)
			}
		})
	}
}

// Whatever happens to the one who computes, nothing stays reserved, and nothing
// is delivered for which nothing was.
func TestNothingStaysReserved(t *testing.T) {
	h := newShop(t)
	k, _ := h.key(t, 100)
	ctx := context.WithValue(t.Context(), keyOfRequest{}, k)
	h.during = func(int) (bool, error) { panic("a defect") }
	func() {
		defer func() { _ = recover() }()
		_, _ = charged(ctx, h.Backend, Prompt{MaxTokens: 5}, whole, discard)
	}()
	if kinds, balance := h.entries(t, k); len(kinds) != 2 || balance != 100 {
		t.Errorf("the ledger has %v and leaves %d", kinds, balance)
	}
	h.Generate = func(_ context.Context, _ Prompt, emit func(string) error) (Done, error) { return Done{}, emit("free") }
	_, err := charged(ctx, h.Backend, Prompt{MaxTokens: 5}, flowing, func(string) error {
		t.Error("a token was given away")
		return nil
	})
	if !errors.Is(err, fault.InternalUnexpected) {
		t.Errorf("it ended by %v", err)
	}
}
