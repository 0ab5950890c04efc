package gguf

import "fmt"

// The tokenizers that come with the architectures served, by their names in
// the format.
const (
	sentencePiece = "llama"
	byteLevel     = "gpt2"
)

// vocabulary checks what llama.cpp takes on trust: it reads scores and types
// of as many tokens as there are names, and aborts on a name that comes twice
// and on a byte without a token.
func (in *inspector) vocabulary() error {
	kind := in.f.String(keyTokenizer)
	switch kind {
	case "", noVocabulary, "none":
		return nil
	case sentencePiece, byteLevel:
	default:
		return invalid(keyTokenizer, "is %s, served are %s and %s", shown(kind), sentencePiece, byteLevel)
	}
	kv, _ := in.f.KV(keyTokens)
	tokens, ok := kv.Texts()
	if !ok || len(tokens) != in.m.Vocabulary {
		return invalid(keyTokens, "holds %d texts, the embedding has %d rows", len(tokens), in.m.Vocabulary)
	}
	seen := make(map[string]bool, len(tokens))
	for _, t := range tokens {
		if t != "" && seen[t] {
			return invalid(keyTokens, "holds %s twice", shown(t))
		}
		seen[t] = true
	}
	for _, want := range []KV{{Key: "tokenizer.ggml.scores", Elem: KeyFloat32}, {Key: "tokenizer.ggml.token_type", Elem: KeyInt32}} {
		kv, ok := in.f.KV(want.Key)
		if ok && (kv.Type != KeyArray || kv.Elem != want.Elem || kv.Count != len(tokens)) {
			return invalid(want.Key, "is not an array of one value a token")
		}
	}
	if kv, ok := in.f.KV("tokenizer.ggml.merges"); ok && (kv.Type != KeyArray || kv.Elem != KeyString) {
		return invalid("tokenizer.ggml.merges", "is not an array of texts")
	}
	in.m.Tokenizer = true
	if kind == sentencePiece {
		return everyByte(seen)
	}
	return nil
}

// everyByte looks for the tokens which stand for bytes that no other token
// spells: "<0x41>" or the byte itself.
func everyByte(tokens map[string]bool) error {
	for b := range 256 {
		if !tokens[fmt.Sprintf("<0x%02X>", b)] && !tokens[string([]byte{byte(b)})] {
			return invalid(keyTokens, "holds none for the byte 0x%02X", b)
		}
	}
	return nil
}
