package main

import (
	"time"

	"muster/internal/engine"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/shard"
	"muster/internal/wire"
)

// model is a loaded shard, ready to be attached.
type model struct {
	load    wire.Load
	weights *engine.Model
	context *engine.Context
	embed   *engine.Embedding
	width   int
	vocab   int
}

func (h *host) load(id uint64, l *wire.Load) (wire.Reply, error) {
	if h.model != nil || h.vocab != nil {
		return wire.Reply{}, h.refuse("a second load")
	}
	if l.Kind == wire.LoadVocabulary {
		v, err := h.library.OpenVocabulary(l.Path)
		if err != nil {
			return wire.Reply{}, err
		}
		h.vocab = v
		return wire.Reply{}, nil
	}
	m, err := h.openModel(id, l)
	if err != nil {
		return wire.Reply{}, err
	}
	loaded, err := m.try()
	if err != nil {
		return wire.Reply{}, err
	}
	h.model = m
	return wire.Reply{Loaded: loaded}, nil
}

func (h *host) openModel(id uint64, l *wire.Load) (*model, error) {
	em, err := h.library.OpenModel(l.Path, engine.ModelParams{
		Repack: l.Recipe.Repack, GPULayers: l.Recipe.GPULayers,
		Progress: func(done float32) { _ = h.lines.Send(wire.Reply{ID: id, Progress: &wire.Progress{Done: done}}) },
	})
	if err != nil {
		return nil, err
	}
	m := &model{load: *l, weights: em, width: em.Width(), vocab: em.Vocabulary().Size()}
	if err := m.open(); err != nil {
		return nil, err
	}
	if l.Kind == wire.LoadStage && l.First {
		if m.embed, err = h.openEmbedding(l); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// openEmbedding opens the look-up table of a first stage. Its file stays open
// for the life of the process.
func (h *host) openEmbedding(l *wire.Load) (*engine.Embedding, error) {
	f, err := gguf.Open(l.Embedding)
	if err != nil {
		return nil, err
	}
	const name = "token_embd.weight"
	t, ok := f.Tensor(name)
	if !ok || len(t.Dims) != 2 {
		return nil, fault.New(fault.ModelTensorMissing, h.name, "tensor", name)
	}
	return h.library.OpenEmbedding(engine.Table{
		Source: f.Data(t), Type: uint32(t.Type), Width: int(t.Dims[0]), Rows: int(t.Dims[1]),
	}, l.EmbeddingScale)
}

// trialTokens is the batch of the trial forward; less where the chunk is less.
const trialTokens = 32

// try runs real forwards, so that the pages of the weights are in memory and
// the time of a step is known before the first request.
func (m *model) try() (*wire.Loaded, error) {
	n := min(trialTokens, m.load.Recipe.Chunk, m.load.Recipe.Share())
	if _, err := m.forward(n); err != nil { // reads the weights from disk
		return nil, err
	}
	chunk, err := m.forward(n)
	if err != nil {
		return nil, err
	}
	token, err := m.forward(1)
	if err != nil {
		return nil, err
	}
	cell, err := m.cellBytes()
	if err != nil {
		return nil, err
	}
	rss, err := resident()
	if err != nil {
		return nil, err
	}
	loaded := &wire.Loaded{
		Width: m.width, Layers: m.load.Layers[1] - m.load.Layers[0], Context: m.context.Context(), Threads: m.load.Recipe.Threads,
		ModelBytes: m.weights.Bytes(), ResidentBytes: rss,
		TokenMicros: token.Microseconds(), ChunkMicros: chunk.Microseconds(), ChunkTokens: n, CellBytes: cell,
	}
	if m.load.Last {
		loaded.Vocabulary = m.vocab
	}
	return loaded, nil
}

// forward decodes n tokens in slot 0 and forgets them.
func (m *model) forward(n int) (time.Duration, error) {
	cells := make([]wire.Cell, n)
	for i := range cells {
		cells[i] = wire.Cell{Position: i, Logits: m.load.Last && i == n-1}
	}
	start := time.Now()
	err := m.feed(cells)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	return took, m.context.Trim(0, 0)
}

// cellBytes is what a second token in slot 0 takes in the KV cache, 0 where
// there is no room for it. It forgets both.
func (m *model) cellBytes() (uint64, error) {
	if m.load.Recipe.Share() < 2 {
		return 0, nil
	}
	var held [2]uint64
	for i := range held {
		if err := m.feed([]wire.Cell{{Position: i}}); err != nil {
			return 0, err
		}
		held[i] = m.context.SlotBytes(0)
	}
	return held[1] - held[0], m.context.Trim(0, 0)
}

func (m *model) feed(cells []wire.Cell) error {
	if m.load.Kind == wire.LoadWhole {
		ids := make([]int32, len(cells))
		for i := range ids {
			ids[i] = int32(i % m.vocab)
		}
		return m.context.DecodeTokens(cells, ids)
	}
	rows := make([]float32, len(cells)*m.width)
	for i := range rows {
		rows[i] = float32(i%7)/7 - 0.5
	}
	return m.context.DecodeRows(cells, rows)
}

// shard makes the shard that serves the loaded model.
func (h *host) shard() *shard.Shard {
	m := h.model
	cfg := shard.Config{
		Name: h.name, First: m.load.First, Last: m.load.Last, Width: m.width,
		Recipe: m.load.Recipe, Engine: m.context,
	}
	if m.embed != nil {
		cfg.Embed = m.embed
	}
	if m.load.Last {
		cfg.Vocabulary = m.vocab
		cfg.Sampler = func(s wire.Sampling) (shard.Sampler, error) {
			return h.library.NewSampler(m.vocab, s)
		}
	}
	return shard.New(cfg)
}

// resident is the memory of this process in bytes.
func resident() (uint64, error) {
	n, err := residentBytes()
	if err != nil {
		return 0, fault.New(fault.InternalUnexpected, "worker").Because(err)
	}
	return n, nil
}
