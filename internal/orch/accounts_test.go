package orch

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/store"
	"muster/internal/wire"
)

// A request is asked about once it is let in and its prompt is known, and none
// that is refused before.
func TestARequestIsAcceptedBeforeItIsComputed(t *testing.T) {
	w := newWorld(t, 1)
	var asked []credit.Work
	var answer error
	ask := func(prompt string, most int) (int, error) {
		asked = nil
		tokens := 0
		_, err := w.Generate(t.Context(), Request{
			Prompt: prompt, Sampling: infer.Greedy(), MaxTokens: most,
			Accept: func(work credit.Work) error {
				asked = append(asked, work)
				return answer
			},
		}, func(string, wire.Answer) error {
			if len(asked) == 0 {
				t.Error("it is answered and was not accepted")
			}
			tokens++
			return nil
		})
		return tokens, err
	}
	if _, err := ask("hello", 4); !errors.Is(err, fault.OrchRequestRefused) || len(asked) != 0 {
		t.Errorf("before there is a run: %v, asked %v", err, asked)
	}
	w.boot()
	run := w.serving(id.RunID{})
	for prompt, code := range map[string]fault.Code{
		"": fault.RequestPromptEmpty, strings.Repeat("a", 256): fault.RequestPromptTooLong, "\x80": fault.RequestPromptInvalid,
	} {
		if _, err := ask(prompt, 4); !errors.Is(err, code) || len(asked) != 0 {
			t.Errorf("%.8q: %v, asked %v", prompt, err, asked)
		}
	}
	answer = errors.New("no")
	if tokens, err := ask("hello", 0); !errors.Is(err, answer) || tokens != 0 || len(asked) != 1 || asked[0] != (credit.Work{Run: run, Prompt: 5, Most: 252}) {
		t.Errorf("not accepted: %d tokens, %v, asked %v", tokens, err, asked)
	}
	answer = nil
	if tokens, err := ask("hello", 4); err != nil || tokens != 4 || len(asked) != 1 || asked[0] != (credit.Work{Run: run, Prompt: 5, Most: 4}) {
		t.Errorf("accepted: %d tokens, %v, asked %v", tokens, err, asked)
	}
	if err := w.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := ask("hello", 4); err == nil || len(asked) != 0 {
		t.Errorf("after the run: %v, asked %v", err, asked)
	}
}

// What is reserved is what the longest answer takes, to the token.
func TestNoAnswerIsLongerThanWhatIsReserved(t *testing.T) {
	w := newWorld(t, 1).boot()
	w.serving(id.RunID{})
	var work credit.Work
	tokens := 0
	res, err := w.Generate(t.Context(), Request{
		Prompt: "hello", Sampling: infer.Greedy(), Accept: func(w credit.Work) error { work = w; return nil },
	}, func(string, wire.Answer) error { tokens++; return nil })
	if err != nil || len(res.Tokens) != work.Most {
		t.Errorf("%d tokens of %d (%v)", len(res.Tokens), work.Most, err)
	}
}

// What a process that died has left reserved is given back by the next one, once.
func TestARestartGivesBackWhatWasReserved(t *testing.T) {
	w := newWorld(t, 0)
	ctx := t.Context()
	k, _, err := w.Accounts().CreateKey(ctx, store.NewKey{Name: "laptop", Credit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"r1", "r2"} {
		if err := w.Accounts().Reserve(ctx, store.Reservation{Request: request, Key: k.ID, Run: id.RunID{1}, Tokens: 40}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Accounts().Settle(ctx, "r1", 15, k.Created); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.end(w.Orch)
		w.start()
		all, err := w.Accounts().Ledger(ctx, k.ID, 0, 100)
		if err != nil || len(all) != 5 {
			t.Fatalf("the ledger is %+v (%v)", all, err)
		}
		if last := all[4]; last.Kind != store.Released || last.Request != "r2" || last.Tokens != 40 || last.Why != string(fault.KeyReservationOrphaned) {
			t.Errorf("its last entry is %+v", last)
		}
	}
	keys, err := w.Accounts().Keys(ctx)
	if err != nil || keys[0].Balance != 85 || keys[0].Reserved != 0 {
		t.Errorf("the keys are %+v (%v)", keys, err)
	}
}
