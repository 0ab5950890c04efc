package credit_test

import (
	"testing"

	"pgregory.net/rapid"

	"muster/internal/core/credit"
	"muster/internal/id"
)

func TestWhatIsReserved(t *testing.T) {
	for name, c := range map[string]struct {
		context, prompt, most int
		want                  int64
	}{
		"as asked":               {4096, 10, 16, 26},
		"as many as fit":         {4096, 10, 0, 4097},
		"more than fit":          {4096, 4000, 1000, 4097},
		"just as many as fit":    {4096, 4000, 97, 4097},
		"a prompt that fills it": {16, 16, 0, 17},
	} {
		if got := credit.In(c.context, id.RunID{1}, c.prompt, c.most).Reserved(); got != c.want {
			t.Errorf("%s: %d are reserved, want %d", name, got, c.want)
		}
	}
}

func TestWhatIsCharged(t *testing.T) {
	work := credit.Work{Prompt: 10, Most: 16}
	for name, c := range map[string]struct {
		ending    credit.Ending
		delivered int
		want      int64
	}{
		"an answer":                     {credit.Answered, 7, 17},
		"the longest answer":            {credit.Answered, 16, 26},
		"an answer without a token":     {credit.Answered, 0, 0},
		"a client that left":            {credit.Ended, 3, 13},
		"one that left before any came": {credit.Ended, 0, 0},
		"a fault before any came":       {credit.Faulted, 0, 0},
		"a fault in mid-answer":         {credit.Faulted, 15, 0},
	} {
		if got := work.Charge(c.ending, c.delivered); got != c.want {
			t.Errorf("%s: %d are charged, want %d", name, got, c.want)
		}
	}
}

// Whatever is claimed, the charge is covered by what was set aside, and a fault
// costs nothing.
func TestNoChargeIsMoreThanWasReserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := credit.In(rapid.IntRange(1, 1<<20).Draw(t, "context"), id.RunID{1},
			rapid.IntRange(1, 1<<20).Draw(t, "prompt"), rapid.IntRange(0, 1<<40).Draw(t, "most"))
		e := rapid.SampledFrom([]credit.Ending{credit.Faulted, credit.Answered, credit.Ended}).Draw(t, "ending")
		delivered := rapid.IntRange(-5, 1<<40).Draw(t, "delivered")
		got := w.Charge(e, delivered)
		if got < 0 || got > w.Reserved() {
			t.Fatalf("%d of %d reserved", got, w.Reserved())
		}
		if free := e == credit.Faulted || delivered <= 0; free != (got == 0) {
			t.Fatalf("ending %d after %d tokens costs %d", e, delivered, got)
		}
	})
}
