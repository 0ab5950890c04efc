// Package credit says what a request costs its key: how many tokens are set
// aside when it is accepted, and how many of these are charged once it has
// ended. The rest is given back.
//
//	accepted: prompt + most ---> answered  prompt + delivered
//	                        |--> ended     prompt + delivered, by who reads it
//	                        +--> faulted   0
//
// A fault is Muster's own: nothing is charged for it, whatever was delivered
// before. Who stops reading pays what came until then. And where nothing came,
// nothing is charged, the prompt neither.
//
// It knows neither keys nor the ledger, and nothing of how answers are made.
package credit

import "muster/internal/id"

// Work is a request that was accepted, before any of it is computed.
type Work struct {
	Run    id.RunID // that serves it
	Prompt int      // tokens, at least 1
	Most   int      // tokens of the answer at most, at least 1
}

// In is the work of a prompt in a context of so many tokens, where most of the
// answer were asked for, 0 for as many as fit. The last token is drawn and never
// fed back, so that one more fits than there is room.
func In(context int, run id.RunID, prompt, most int) Work {
	room := max(1, context-prompt+1)
	if most <= 0 || most > room {
		most = room
	}
	return Work{Run: run, Prompt: prompt, Most: most}
}

// Reserved is what is set aside for the work, in tokens.
func (w Work) Reserved() int64 { return int64(w.Prompt) + int64(w.Most) }

// Ending is how the work came to its end.
type Ending int

// The endings.
const (
	Faulted  Ending = iota // Muster did not do it
	Answered               // it was answered to its end
	Ended                  // who reads it took no more
)

// Charge is what the work has cost, in tokens, where so many of the answer were
// delivered: never more than was reserved.
func (w Work) Charge(e Ending, delivered int) int64 {
	if e == Faulted || delivered <= 0 {
		return 0
	}
	return min(w.Reserved(), int64(w.Prompt)+int64(delivered))
}
