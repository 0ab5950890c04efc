// Package randmodel makes models with random weights, small ones for tests
// and large ones for measuring. A configuration always gives the same bytes.
//
// What such a model says is noise, but it says it through the same tensors,
// keys and types as a trained model of its architecture, and its tokenizer (a
// byte-level BPE) takes any text. The package knows the format through
// internal/gguf and nothing of engines.
package randmodel

import (
	"fmt"
	"slices"

	"muster/internal/fault"
	"muster/internal/gguf"
)

// Config is the shape of a model. The zero value of any field but Layers
// stands for a small default.
type Config struct {
	Architecture string // one of gguf.Architectures; "" is llama
	Layers       int    // 0 is 3, for gemma3 12
	Width        int    // floats of a row; 0 is 64, for Q4_K 256
	FFN          int    // width of the feed-forward part; 0 is twice Width
	Heads        int    // 0 is 4
	KVHeads      int    // 0 is half of Heads
	HeadDim      int    // 0 is Width/Heads
	Vocabulary   int    // tokens, at least LeastVocabulary; 0 is 512
	Type         string // of the matrices: one of Types; "" is f32
	Tied         bool   // no head of its own; always so for gemma3
	Experts      int    // llama: 0 is a dense model; qwen3moe: 0 is 4. Two are used
	Context      int    // tokens it claims to be trained for; 0 is 2048
	Window       int    // gemma3: tokens seen by layers with a window; 0 is 64
	Seed         uint64
}

var types = map[string]gguf.Type{"f32": gguf.F32, "f16": gguf.F16, "q8_0": gguf.Q8_0, "q4_0": gguf.Q4_0, "q4_k": gguf.Q4_K}

// Types lists the types of matrices that can be made.
func Types() []string { return []string{"f32", "f16", "q8_0", "q4_0", "q4_k"} }

// Preset is a named configuration for measuring; false for an unknown name.
func Preset(name string) (Config, bool) {
	c, ok := map[string]Config{
		// 254 million weights, 270 MB: large enough that reading weights and not
		// the handing over of rows sets the speed.
		"250m": {Layers: 16, Width: 1024, FFN: 2816, Heads: 16, KVHeads: 8, Vocabulary: 32000, Type: "q8_0", Context: 4096},
	}[name]
	return c, ok
}

func or(v, fallback int) int {
	if v == 0 {
		return fallback
	}
	return v
}

// filled puts defaults where nothing is given.
func (c Config) filled() Config {
	if c.Architecture == "" {
		c.Architecture = "llama"
	}
	if c.Type == "" {
		c.Type = "f32"
	}
	layers, width, experts := 3, 64, 0
	if c.Architecture == "gemma3" {
		layers, c.Tied = 12, true
	}
	if c.Type == "q4_k" {
		width = 256
	}
	if c.Architecture == "qwen3moe" {
		experts = 4
	}
	c.Layers, c.Width = or(c.Layers, layers), or(c.Width, width)
	c.FFN, c.Heads = or(c.FFN, 2*c.Width), or(c.Heads, 4)
	c.KVHeads, c.HeadDim = or(c.KVHeads, max(1, c.Heads/2)), or(c.HeadDim, c.Width/max(1, c.Heads))
	c.Vocabulary, c.Context = or(c.Vocabulary, 512), or(c.Context, 2048)
	c.Experts, c.Window = or(c.Experts, experts), or(c.Window, 64)
	return c
}

// check refuses what cannot be made: recipe.invalid.
func (c Config) check() error {
	bad := func(field string, value any, format string, args ...any) error {
		return fault.New(fault.RecipeInvalid, "randmodel", "field", field, "value", value, "want", fmt.Sprintf(format, args...))
	}
	if !slices.Contains(gguf.Architectures(), c.Architecture) {
		return bad("architecture", c.Architecture, "one of %v", gguf.Architectures())
	}
	typ, ok := types[c.Type]
	if !ok {
		return bad("type", c.Type, "one of %v", Types())
	}
	for _, n := range []struct {
		field string
		value int
		of    int // must be a multiple of it
		least int
	}{
		{"layers", c.Layers, 1, 1},
		{"width", c.Width, typ.Block(), 1},
		{"ffn", c.FFN, typ.Block(), 1},
		{"heads", c.Heads, max(1, c.KVHeads), 1},
		{"kv heads", c.KVHeads, 1, 1},
		{"head dim", c.HeadDim, 2, 2},
		{"heads times head dim", c.Heads * c.HeadDim, typ.Block(), 1},
		{"vocabulary", c.Vocabulary, 1, LeastVocabulary},
		{"context", c.Context, 1, 1},
	} {
		if n.value < n.least || n.value%n.of != 0 {
			return bad(n.field, n.value, "at least %d and a multiple of %d", n.least, n.of)
		}
	}
	if c.Experts != 0 && (c.Experts < 2 || c.Architecture != "llama" && c.Architecture != "qwen3moe") {
		return bad("experts", c.Experts, "2 or more, and an architecture with experts")
	}
	return nil
}
