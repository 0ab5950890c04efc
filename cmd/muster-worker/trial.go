package main

import (
	"muster/internal/engine"
	"muster/internal/wire"
)

// trial runs a forward through a small slice and frees it again.
func (h *host) trial(t *wire.Trial) (wire.Reply, error) {
	weights, err := h.library.OpenModel(t.Path, engine.ModelParams{Repack: true})
	if err != nil {
		return wire.Reply{}, err
	}
	defer weights.Close()
	const tokens = 8
	m := &model{
		weights: weights, width: weights.Width(),
		load: wire.Load{Kind: wire.LoadStage, Recipe: wire.Recipe{
			Context: 64, Slots: 1, Chunk: tokens, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true,
		}},
	}
	if err := m.open(); err != nil {
		return wire.Reply{}, err
	}
	defer m.context.Close()
	_, err = m.forward(tokens)
	return wire.Reply{}, err
}
