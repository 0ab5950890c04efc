package infer

import (
	"fmt"
	"unicode/utf8"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Words is what a vocabulary makes of tokens and of texts.
type Words struct {
	pieces  [][]byte
	longest int // bytes of the longest piece: no token stands for more
	ends    map[int32]bool
}

// NewWords takes a vocabulary, as a tokenizer tells it.
func NewWords(v *wire.Vocab) *Words {
	w := &Words{pieces: v.Pieces, longest: 1, ends: make(map[int32]bool, len(v.EOG))}
	for _, piece := range v.Pieces {
		w.longest = max(w.longest, len(piece))
	}
	for _, id := range v.EOG {
		w.ends[id] = true
	}
	return w
}

// Text is for the tokens of one answer.
func (w *Words) Text() *Text { return NewText(w.pieces) }

// Ends tells end-of-generation ids.
func (w *Words) Ends(id int32) bool { return w.ends[id] }

// Check refuses a text before time is spent on its tokens. Faults:
// request.prompt_invalid, request.prompt_too_long where it cannot fit into a
// context of so many.
func (w *Words) Check(text string, context int) error {
	if !utf8.ValidString(text) {
		// llama.cpp would take each bad byte for U+FFFD and answer another prompt.
		return fault.New(fault.RequestPromptInvalid, "")
	}
	if least := len(text) / w.longest; least > context {
		return fault.New(fault.RequestPromptTooLong, "", "tokens", fmt.Sprintf("at least %d", least), "context", context)
	}
	return nil
}
