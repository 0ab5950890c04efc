package infer

import "unicode/utf8"

// Text joins token pieces to text, holding back bytes that are not yet a whole
// character.
type Text struct {
	pieces [][]byte
	rest   []byte
}

// NewText reads pieces by token id.
func NewText(pieces [][]byte) *Text { return &Text{pieces: pieces} }

// Add returns the text that token completes, "" where none is complete yet.
// Bytes that can never become a character come out as U+FFFD.
func (t *Text) Add(token int32) string {
	if token < 0 || int(token) >= len(t.pieces) {
		return ""
	}
	t.rest = append(t.rest, t.pieces[token]...)
	out := make([]rune, 0, len(t.rest))
	for len(t.rest) > 0 && utf8.FullRune(t.rest) {
		r, n := utf8.DecodeRune(t.rest)
		out = append(out, r)
		t.rest = t.rest[n:]
	}
	return string(out)
}

// End returns what is left when no token follows: U+FFFD for an unfinished
// character, "" otherwise.
func (t *Text) End() string {
	if len(t.rest) == 0 {
		return ""
	}
	t.rest = nil
	return string(utf8.RuneError)
}
