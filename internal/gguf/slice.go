package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"muster/internal/fault"
)

// SlicePlan says which bytes make the file of one stage. It depends on the
// model alone, so the same plan made twice has the same bytes.
type SlicePlan struct {
	Range        // layers; empty for an embedding or a vocabulary
	First, Last  bool
	Header       []byte        // start of the file, padded
	Tensors      []SliceTensor // in the order of the file
	Size         int64         // bytes of the file
	Architecture string
}

// SliceTensor is one tensor of a slice: a copy of a tensor of the model, or a
// stand-in which the plan brings along.
type SliceTensor struct {
	Name         string // in the slice
	Source       string // in the model; "" for a stand-in
	Part         int    // of the model
	SourceOffset int64  // bytes from the start of the part
	Literal      []byte // of a stand-in
	Offset       int64  // bytes from the start of the slice
	Size         int64  // bytes
}

// PlanSlice plans a stage that takes rows and computes the layers of r. Every
// stage but the last gives rows: its vocabulary is one dummy token and its
// final norm is never computed. The last holds the real norm, the tokenizer
// keys, and the head under the name of the embedding, which llama.cpp then
// uses as the head; no stage needs the embedding, since rows come in.
// Faults: model.cut_refused.
func PlanSlice(f *File, m *Model, r Range) (*SlicePlan, error) {
	if err := m.CheckCut(r.Start, r.End); err != nil {
		return nil, err
	}
	b := &builder{f: f, plan: &SlicePlan{Range: r, First: r.Start == 0, Last: r.End == m.Layers, Architecture: m.Architecture}}
	b.keys(m, r)
	if b.plan.Last {
		b.head(m)
	} else {
		b.standIn(tensorEmbedding, 0, uint64(m.Width), 1)
		b.standIn(tensorNorm, 1, uint64(m.Width))
	}
	for _, t := range f.Tensors {
		switch layer, rest, ok := splitLayer(t.Name); {
		case ok && layer >= r.Start && layer < r.End:
			b.copy(t, fmt.Sprintf("%s%d.%s", layerPrefix, layer-r.Start, rest))
		case !ok && !ofEnds(t.Name):
			b.copy(t, t.Name) // such as rope_freqs: every stage computes with it
		}
	}
	return b.finish()
}

// PlanEmbedding plans a file that holds the embedding alone, for looking up
// the rows of tokens.
func PlanEmbedding(f *File, m *Model) (*SlicePlan, error) {
	t, ok := f.Tensor(tensorEmbedding)
	if !ok {
		return nil, missing(tensorEmbedding)
	}
	b := &builder{f: f, plan: &SlicePlan{First: true, Architecture: m.Architecture}}
	b.kvs = []KV{Text(keyArchitecture, m.Architecture)}
	b.copy(t, t.Name)
	return b.finish()
}

// PlanVocabulary plans a file that holds the keys and no tensor, which is
// enough to tokenise. Faults: model.vocabulary_missing.
func PlanVocabulary(f *File, m *Model) (*SlicePlan, error) {
	if !m.Tokenizer {
		return nil, fault.New(fault.ModelVocabularyMissing, component)
	}
	b := &builder{f: f, plan: &SlicePlan{Architecture: m.Architecture}}
	b.kvs = slices.DeleteFunc(slices.Clone(f.KVs), func(kv KV) bool { return ofLayout(kv.Key) })
	return b.finish()
}

type builder struct {
	f     *File
	plan  *SlicePlan
	kvs   []KV
	infos []Info
}

// keys copies the model's keys for the stage: block_count and the arrays with
// one value a layer are those of r.
func (b *builder) keys(m *Model, r Range) {
	prefix := m.Architecture + "."
	words := prefix + "vocab_size"
	for _, kv := range b.f.KVs {
		switch {
		case ofLayout(kv.Key):
			continue
		case !b.plan.Last && (strings.HasPrefix(kv.Key, "tokenizer.") || kv.Key == words):
			continue
		case kv.Key == prefix+"block_count":
			kv = Uint32(kv.Key, uint32(r.Layers()))
		case strings.HasPrefix(kv.Key, prefix) && ofLayers(kv, m.Layers):
			kv = kv.between(r.Start, r.End)
		}
		b.kvs = append(b.kvs, kv)
	}
	if !b.plan.Last {
		b.kvs = append(b.kvs, Text(keyTokenizer, noVocabulary), Uint32(words, 1))
	}
}

// ofLayers reports whether a key holds one value a layer. The sections of a
// rotary embedding are always four, also in a model of four layers.
func ofLayers(kv KV, layers int) bool {
	return kv.Type == KeyArray && kv.Elem != KeyString && kv.Count == layers && !strings.HasSuffix(kv.Key, ".rope.dimension_sections")
}

// ofEnds reports whether a tensor belongs to the first or last stage alone.
func ofEnds(tensor string) bool {
	return tensor == tensorEmbedding || strings.HasPrefix(tensor, "output.") || strings.HasPrefix(tensor, "output_norm.")
}

// head adds what turns rows into logits.
func (b *builder) head(m *Model) {
	source := tensorHead
	if m.Tied {
		source = tensorEmbedding
	}
	for _, t := range b.f.Tensors {
		switch {
		case t.Name == source:
			b.copy(t, tensorEmbedding)
		case ofEnds(t.Name) && t.Name != tensorEmbedding:
			b.copy(t, t.Name)
		}
	}
}

func (b *builder) copy(t Tensor, name string) {
	b.infos = append(b.infos, Info{Name: name, Dims: t.Dims, Type: t.Type})
	b.plan.Tensors = append(b.plan.Tensors, SliceTensor{Name: name, Source: t.Name, Part: t.Part, SourceOffset: t.Offset})
}

// standIn adds an F32 tensor that holds one value throughout.
func (b *builder) standIn(name string, value float32, dims ...uint64) {
	var literal []byte
	for range dims[0] {
		literal = binary.LittleEndian.AppendUint32(literal, math.Float32bits(value))
	}
	b.infos = append(b.infos, Info{Name: name, Dims: dims, Type: F32})
	b.plan.Tensors = append(b.plan.Tensors, SliceTensor{Name: name, Literal: literal})
}

func (b *builder) finish() (*SlicePlan, error) {
	l, err := Arrange(b.kvs, b.infos)
	if err != nil {
		return nil, err
	}
	b.plan.Header, b.plan.Size = l.Header, l.Total
	for i := range b.plan.Tensors {
		b.plan.Tensors[i].Offset, b.plan.Tensors[i].Size = l.Offsets[i], l.Sizes[i]
	}
	return b.plan, nil
}
