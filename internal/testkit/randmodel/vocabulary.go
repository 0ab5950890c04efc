package randmodel

import (
	"fmt"

	"muster/internal/gguf"
)

// Token types of the format.
const (
	tokenNormal  = 1
	tokenControl = 3
	tokenUnused  = 5
)

// EndOfText is the name of the token that ends a generation, which is the
// last but the fillers.
const EndOfText = "<|endoftext|>"

// merges are a few of English, so that words become fewer tokens than bytes.
// Ġ is GPT-2's letter for a space.
var merges = [][2]string{
	{"Ġ", "t"},
	{"Ġ", "a"},
	{"h", "e"},
	{"i", "n"},
	{"r", "e"},
	{"o", "n"},
	{"Ġt", "he"},
	{"e", "r"},
	{"Ġ", "s"},
	{"a", "t"},
	{"Ġ", "w"},
	{"e", "n"},
	{"Ġ", "c"},
	{"i", "t"},
	{"o", "u"},
	{"a", "n"},
	{"o", "r"},
	{"e", "s"},
	{"i", "s"},
	{"in", "g"},
	{"Ġa", "n"},
	{"e", "d"},
	{"a", "l"},
	{"an", "d"},
	{"Ġ", "o"},
	{"Ġ", "p"},
	{"Ġan", "d"},
}

// LeastVocabulary is the tokens that every vocabulary holds: 256 bytes, the
// merges and the end of text.
const LeastVocabulary = 256 + 27 + 1

// vocabulary returns the tokenizer's keys for a vocabulary of n tokens, filled
// up with tokens that no text becomes.
func vocabulary(n int) []gguf.KV {
	tokens := make([]string, 0, n)
	kinds := make([]int32, 0, n)
	add := func(token string, kind int32) {
		tokens, kinds = append(tokens, token), append(kinds, kind)
	}
	for b := range 256 {
		add(string(letter(byte(b))), tokenNormal)
	}
	pairs := make([]string, 0, len(merges))
	for _, m := range merges {
		pairs = append(pairs, m[0]+" "+m[1])
		add(m[0]+m[1], tokenNormal)
	}
	end := uint32(len(tokens))
	add(EndOfText, tokenControl)
	for len(tokens) < n {
		add(fmt.Sprintf("[filler %d]", len(tokens)), tokenUnused)
	}
	return []gguf.KV{
		gguf.Text("tokenizer.ggml.model", "gpt2"),
		gguf.Text("tokenizer.ggml.pre", "gpt-2"),
		gguf.Texts("tokenizer.ggml.tokens", tokens),
		gguf.Int32s("tokenizer.ggml.token_type", kinds),
		gguf.Texts("tokenizer.ggml.merges", pairs),
		gguf.Uint32("tokenizer.ggml.bos_token_id", end),
		gguf.Uint32("tokenizer.ggml.eos_token_id", end),
		gguf.Bool("tokenizer.ggml.add_bos_token", false),
	}
}

// letter is the character that stands for a byte in the vocabularies of GPT-2:
// itself where it can be printed, the next free one above 255 otherwise.
func letter(b byte) rune {
	if printable(b) {
		return rune(b)
	}
	next := rune(256)
	for x := range b {
		if !printable(x) {
			next++
		}
	}
	return next
}

func printable(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
}
