package randmodel

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"

	"muster/internal/gguf"
)

// Generate writes the model to w.
func Generate(w io.Writer, c Config) error {
	c = c.filled()
	if err := c.check(); err != nil {
		return err
	}
	m := &model{c: c, matrix: types[c.Type]}
	m.tensors()
	return gguf.Write(w, c.keys(), m.infos, func(i int, w io.Writer) error {
		info := m.infos[i]
		return newSource(c.Seed, info.Name).fill(w, info, m.fills[i])
	})
}

// GenerateFile writes the model to a file, replacing what is there.
func GenerateFile(path string, c Config) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = Generate(w, c)
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

func (c Config) keys() []gguf.KV {
	key := func(name string) string { return c.Architecture + "." + name }
	number := func(name string, v int) gguf.KV { return gguf.Uint32(key(name), uint32(v)) }
	kvs := []gguf.KV{
		gguf.Text("general.architecture", c.Architecture),
		gguf.Text("general.name", "random "+c.Architecture),
		number("block_count", c.Layers),
		number("context_length", c.Context),
		number("embedding_length", c.Width),
		number("feed_forward_length", c.FFN),
		number("attention.head_count", c.Heads),
		number("attention.head_count_kv", c.KVHeads),
		number("attention.key_length", c.HeadDim),
		number("attention.value_length", c.HeadDim),
		gguf.Float32(key("attention.layer_norm_rms_epsilon"), 1e-5),
		gguf.Float32(key("rope.freq_base"), 10000),
		number("rope.dimension_count", c.HeadDim),
		number("vocab_size", c.Vocabulary),
	}
	if c.Architecture == "gemma3" {
		kvs = append(kvs, number("attention.sliding_window", c.Window))
	}
	if c.Experts > 0 {
		kvs = append(kvs, number("expert_count", c.Experts), number("expert_used_count", 2), number("expert_feed_forward_length", c.FFN))
	}
	return append(kvs, vocabulary(c.Vocabulary)...)
}

// model collects the tensors of a configuration and how each is filled.
type model struct {
	c      Config
	matrix gguf.Type
	infos  []gguf.Info
	fills  []spread
}

// spread is the distribution of a tensor's values.
type spread struct{ mean, deviation float64 }

func (m *model) add(name string, t gguf.Type, s spread, dims ...int) {
	info := gguf.Info{Name: name, Type: t}
	for _, d := range dims {
		info.Dims = append(info.Dims, uint64(d))
	}
	m.infos, m.fills = append(m.infos, info), append(m.fills, s)
}

func (m *model) norm(name string, n int) { m.add(name, gguf.F32, spread{1, 0.1}, n) }

// weights adds a matrix whose products keep the scale of a row.
func (m *model) weights(name string, dims ...int) {
	m.add(name, m.matrix, spread{0, 1 / math.Sqrt(float64(dims[0]))}, dims...)
}

func (m *model) tensors() {
	c := m.c
	// Logits get a deviation of about 2. Rows of a tied embedding are small
	// beside what the layers add to them, or each token would predict itself.
	logits := 2 / math.Sqrt(float64(c.Width))
	if c.Tied {
		const small = 0.05
		m.add("token_embd.weight", m.matrix, spread{0, small}, c.Width, c.Vocabulary)
		m.add("output_norm.weight", gguf.F32, spread{logits / small, 0.1}, c.Width)
	} else {
		m.add("token_embd.weight", m.matrix, spread{0, 1}, c.Width, c.Vocabulary)
		m.norm("output_norm.weight", c.Width)
		m.add("output.weight", m.matrix, spread{0, logits}, c.Width, c.Vocabulary)
	}
	for layer := range c.Layers {
		prefix := fmt.Sprintf("blk.%d.", layer)
		m.attention(prefix)
		m.feedForward(prefix)
	}
}

func (m *model) attention(prefix string) {
	c := m.c
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	m.norm(prefix+"attn_norm.weight", c.Width)
	m.weights(prefix+"attn_q.weight", c.Width, queries)
	m.weights(prefix+"attn_k.weight", c.Width, keys)
	m.weights(prefix+"attn_v.weight", c.Width, keys)
	switch c.Architecture {
	case "qwen2":
		m.add(prefix+"attn_q.bias", gguf.F32, spread{0, 0.1}, queries)
		m.add(prefix+"attn_k.bias", gguf.F32, spread{0, 0.1}, keys)
		m.add(prefix+"attn_v.bias", gguf.F32, spread{0, 0.1}, keys)
	case "qwen3", "qwen3moe", "gemma3":
		m.norm(prefix+"attn_q_norm.weight", c.HeadDim)
		m.norm(prefix+"attn_k_norm.weight", c.HeadDim)
	}
	m.weights(prefix+"attn_output.weight", queries, c.Width)
	if c.Architecture == "gemma3" {
		m.norm(prefix+"post_attention_norm.weight", c.Width)
		m.norm(prefix+"post_ffw_norm.weight", c.Width)
	}
}

func (m *model) feedForward(prefix string) {
	c := m.c
	m.norm(prefix+"ffn_norm.weight", c.Width)
	if c.Experts > 0 {
		m.add(prefix+"ffn_gate_inp.weight", gguf.F32, spread{0, 1 / math.Sqrt(float64(c.Width))}, c.Width, c.Experts)
		m.weights(prefix+"ffn_gate_exps.weight", c.Width, c.FFN, c.Experts)
		m.weights(prefix+"ffn_down_exps.weight", c.FFN, c.Width, c.Experts)
		m.weights(prefix+"ffn_up_exps.weight", c.Width, c.FFN, c.Experts)
		return
	}
	m.weights(prefix+"ffn_gate.weight", c.Width, c.FFN)
	m.weights(prefix+"ffn_down.weight", c.FFN, c.Width)
	m.weights(prefix+"ffn_up.weight", c.Width, c.FFN)
}
