package orch

import (
	"strconv"
	"strings"

	"muster/internal/core/plan"
)

// sizes is the model as the planner sees it.
func (m *model) sizes() plan.Model {
	f := m.facts
	p := plan.Model{
		Architecture: f.Architecture,
		LayerBytes:   make([]uint64, f.Layers),
		KVBytes:      f.KVBytes(1, 1, valueBytes(m.recipe.KVType)),
		// Measured: the largest graphs hold a few activations of every token
		// of a chunk, and the last stage the logits of each.
		ComputeBytes: uint64(m.recipe.Chunk) * 4 * uint64(8*f.Width+f.Vocabulary),
		Cuts:         f.Cuts(),
		CutRule:      "a layer where its attention pattern begins",
	}
	for _, t := range m.file.Tensors {
		switch layer, in := layerOf(t.Name); {
		case in && layer < f.Layers:
			p.LayerBytes[layer] += uint64(t.Size)
		case t.Name == "token_embd.weight":
			p.EmbeddingBytes += uint64(t.Size)
			if f.Tied {
				p.HeadBytes += uint64(t.Size)
			}
		default:
			p.HeadBytes += uint64(t.Size)
		}
	}
	return p
}

// layerOf is the layer of a tensor such as "blk.7.attn_q.weight".
func layerOf(tensor string) (int, bool) {
	rest, in := strings.CutPrefix(tensor, "blk.")
	number, _, dotted := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	return layer, in && dotted && err == nil && layer >= 0
}

// valueBytes is at most what one value of the KV cache takes, by its type.
func valueBytes(kvType string) int {
	if kvType == "f32" {
		return 4
	}
	return 2
}
