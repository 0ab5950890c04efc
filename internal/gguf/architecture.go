package gguf

import (
	"math"
	"slices"
	"strings"
)

// architecture is what Muster knows of one it serves. Equality of a chain of
// slices with the whole model has been measured for each; llama.cpp's code for
// others derives numbers from a layer's place or from how many there are, so
// nothing is guessed for them.
type architecture struct {
	// tensors of every layer besides common; "a|b" means either.
	tensors []string
	// experts: feed-forward tensors are those of a mixture of experts always,
	// not only where expert_count is above 0.
	experts bool
	// period of its layers where the model gives none: cuts are multiples of it.
	period int
	// special is a number of layers for which llama.cpp scales attention by
	// width/heads and not by the key length; 0 for none.
	special int
	// scale on embedding rows, given the width.
	scale func(width int) float32
}

var (
	common  = []string{"attn_norm.weight", "attn_output.weight", "ffn_norm.weight", "attn_q.weight|attn_qkv.weight", "attn_k.weight|attn_qkv.weight", "attn_v.weight|attn_qkv.weight"}
	dense   = []string{"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}
	mixture = []string{"ffn_gate_inp.weight", "ffn_gate_exps.weight|ffn_gate_up_exps.weight", "ffn_up_exps.weight|ffn_gate_up_exps.weight", "ffn_down_exps.weight"}
	qkNorms = []string{"attn_q_norm.weight", "attn_k_norm.weight"}
)

func unscaled(int) float32 { return 1 }

// rootOfWidth is sqrtf(n_embd), as llama.cpp scales the rows of gemma models.
func rootOfWidth(width int) float32 { return float32(math.Sqrt(float64(width))) }

var architectures = map[string]architecture{
	"llama":    {period: 1, scale: unscaled}, // mixtral is a llama with experts
	"qwen2":    {period: 1, scale: unscaled},
	"qwen3":    {period: 1, scale: unscaled, tensors: qkNorms},
	"qwen3moe": {period: 1, scale: unscaled, tensors: qkNorms, experts: true},
	"gemma3": {
		period: 6, special: 62, scale: rootOfWidth,
		tensors: append([]string{"post_attention_norm.weight", "post_ffw_norm.weight"}, qkNorms...),
	},
}

// Architectures lists what is served, in alphabetical order.
func Architectures() []string {
	names := make([]string, 0, len(architectures))
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func allowed() string {
	return strings.Join(Architectures(), ", ") + " (llama with experts is mixtral)"
}
