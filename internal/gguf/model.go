package gguf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/fault"
)

// Names of tensors and keys which the code speaks of.
const (
	tensorEmbedding = "token_embd.weight"
	tensorHead      = "output.weight"
	tensorNorm      = "output_norm.weight"
	layerPrefix     = "blk."

	keyArchitecture = "general.architecture"
	keyTokenizer    = "tokenizer.ggml.model"
	keyTokens       = "tokenizer.ggml.tokens"
	noVocabulary    = "no_vocab"
)

// Model is what placement, slicing and serving need to know of a model.
type Model struct {
	Architecture   string
	Name           string // general.name, may be empty
	Layers         int
	Width          int // n_embd: floats of a row
	Vocabulary     int // tokens
	ContextTrained int // tokens; 0 where the file does not say
	Heads          int // of the layer that has most
	KVHeads        int // of the layer that has most
	KeyLength      int // floats of a key of one head
	ValueLength    int // floats of a value of one head
	Experts        int // 0 for a dense model
	ExpertsUsed    int
	EmbeddingScale float32 // factor on looked-up embedding rows
	Tied           bool    // the embedding is the head too
	Tokenizer      bool    // the file holds a vocabulary

	period  int // cuts are multiples of it
	special int // a stage of so many layers, or any of a model of so many, has other numbers; 0 for none
}

// Inspect reads a model's shape. It refuses architectures that are not on the
// allow list and every sickness of a file that would abort llama.cpp or give
// a slice other numbers than the model's. Faults are those of the model
// family.
func Inspect(f *File) (*Model, error) {
	name := f.String(keyArchitecture)
	arch, ok := architectures[name]
	if !ok {
		return nil, fault.New(fault.ModelArchitectureUnsupported, component, "architecture", shown(name), "allowed", allowed())
	}
	in := &inspector{f: f, arch: arch, m: &Model{Architecture: name, Name: f.String("general.name")}}
	for _, step := range []func(*inspector) error{
		(*inspector).layers, (*inspector).shape, (*inspector).attention, (*inspector).rotation, (*inspector).experts,
		(*inspector).globals, (*inspector).layerTensors, (*inspector).vocabulary, (*inspector).cutting,
	} {
		if err := step(in); err != nil {
			return nil, err
		}
	}
	return in.m, nil
}

type inspector struct {
	f    *File
	arch architecture
	m    *Model
}

// mostLayers and mostExperts are LLAMA_MAX_LAYERS and LLAMA_MAX_EXPERTS, above
// which llama.cpp aborts. mostUnits bounds widths and heads, so that products
// of them stay small numbers.
const (
	mostLayers  = 512
	mostExperts = 512
	mostUnits   = 1 << 24
)

func invalid(key, format string, args ...any) error {
	return fault.New(fault.ModelMetadataInvalid, component, "key", key, "what", fmt.Sprintf(format, args...))
}

func (in *inspector) key(name string) string { return in.m.Architecture + "." + name }

// number reads a whole number from least to most. Absent is an error where
// fallback is below 0.
func (in *inspector) number(name string, fallback, least, most int) (int, error) {
	key := in.key(name)
	kv, ok := in.f.KV(key)
	if !ok && fallback >= 0 {
		return fallback, nil
	}
	if !ok {
		return 0, invalid(key, "is missing")
	}
	v, ok := kv.Uint()
	if !ok {
		return 0, invalid(key, "is not a whole number")
	}
	return within(key, v, least, most)
}

func within(key string, v uint64, least, most int) (int, error) {
	if v < uint64(least) || v > uint64(most) {
		return 0, invalid(key, "is %d, %d to %d are possible", v, least, most)
	}
	return int(v), nil
}

// perLayer reads a number that may be given once or for each layer, and
// returns the greatest.
func (in *inspector) perLayer(name string, fallback int) (int, error) {
	key := in.key(name)
	kv, ok := in.f.KV(key)
	if !ok || kv.Type != KeyArray {
		return in.number(name, fallback, 1, mostUnits)
	}
	values, ok := kv.Uints()
	if !ok {
		return 0, invalid(key, "holds something else than whole numbers")
	}
	if len(values) != in.m.Layers {
		return 0, invalid(key, "holds %d values for %d layers", len(values), in.m.Layers)
	}
	greatest := 0
	for _, v := range values {
		n, err := within(key, v, 1, mostUnits)
		if err != nil {
			return 0, err
		}
		greatest = max(greatest, n)
	}
	return greatest, nil
}

// layers compares block_count with the layers that are there.
func (in *inspector) layers() error {
	count, err := in.number("block_count", -1, 0, 1<<32-1)
	if err != nil {
		return err
	}
	found := map[int]bool{}
	last := -1
	for _, t := range in.f.Tensors {
		layer, _, ok := splitLayer(t.Name)
		if !ok && strings.HasPrefix(t.Name, layerPrefix) {
			return invalid(shown(t.Name), "is the name of no layer's tensor")
		}
		if ok {
			found[layer], last = true, max(last, layer)
		}
	}
	held := strconv.Itoa(len(found))
	if last+1 != len(found) {
		held += " scattered"
	}
	if count == 0 || count != last+1 || count != len(found) {
		return fault.New(fault.ModelBlockCountInvalid, component, "count", count, "found", held)
	}
	in.m.Layers, err = within(in.key("block_count"), uint64(count), 1, mostLayers)
	return err
}

// splitLayer parts "blk.7.attn_q.weight" into 7 and "attn_q.weight".
func splitLayer(tensor string) (layer int, rest string, ok bool) {
	after, ok := strings.CutPrefix(tensor, layerPrefix)
	if !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(after, ".")
	layer, err := strconv.Atoi(digits)
	if !ok || err != nil || layer < 0 || rest == "" || strconv.Itoa(layer) != digits {
		return 0, "", false
	}
	return layer, rest, true
}

// globals checks the tensors outside the layers.
func (in *inspector) globals() error {
	embedding, ok := in.f.Tensor(tensorEmbedding)
	if !ok {
		return missing(tensorEmbedding)
	}
	if len(embedding.Dims) != 2 || embedding.Dims[1] > 1<<31-1 {
		return invalid(tensorEmbedding, "has the dimensions %d", embedding.Dims)
	}
	in.m.Vocabulary = int(embedding.Dims[1])
	if _, ok := in.f.Tensor(tensorNorm); !ok {
		return missing(tensorNorm)
	}
	_, untied := in.f.Tensor(tensorHead)
	in.m.Tied = !untied
	width, words := uint64(in.m.Width), uint64(in.m.Vocabulary)
	for _, want := range []Info{
		{Name: tensorEmbedding, Dims: []uint64{width, words}},
		{Name: tensorHead, Dims: []uint64{width, words}},
		{Name: tensorNorm, Dims: []uint64{width}},
	} {
		if t, ok := in.f.Tensor(want.Name); ok && !slices.Equal(t.Dims, want.Dims) {
			return invalid(want.Name, "has the dimensions %d where %d belong", t.Dims, want.Dims)
		}
	}
	return nil
}

func missing(tensor string) error {
	return fault.New(fault.ModelTensorMissing, component, "tensor", tensor)
}

// layerTensors checks that each layer has what its architecture computes with.
func (in *inspector) layerTensors() error {
	feedForward := dense
	if in.m.Experts > 0 {
		feedForward = mixture
	}
	for layer := range in.m.Layers {
		for _, wanted := range [][]string{common, in.arch.tensors, feedForward} {
			for _, names := range wanted {
				if !in.hasOne(layer, names) {
					return missing(fmt.Sprintf("%s%d.%s", layerPrefix, layer, names))
				}
			}
		}
	}
	return nil
}

func (in *inspector) hasOne(layer int, names string) bool {
	for name := range strings.SplitSeq(names, "|") {
		if _, ok := in.f.Tensor(fmt.Sprintf("%s%d.%s", layerPrefix, layer, name)); ok {
			return true
		}
	}
	return false
}
