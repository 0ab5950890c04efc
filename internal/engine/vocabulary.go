package engine

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/jupiterrider/ffi"

	"muster/internal/fault"
)

// Vocabulary tokenises and knows the text of each token. It may be used from
// several goroutines at once.
type Vocabulary struct {
	lib    *Library
	model  *Model
	handle llama.Vocab
	kind   llama.VocabType
	size   int
}

// OpenVocabulary loads keys of a GGUF file and no weights. Close its Model when done.
//
// Faults: those of OpenModel, ModelVocabularyMissing.
func (l *Library) OpenVocabulary(path string) (*Vocabulary, error) {
	params := llama.ModelDefaultParams()
	params.VocabOnly = 1
	m, err := l.openModel(path, params, ModelParams{})
	if err != nil {
		return nil, err
	}
	if m.vocab.kind == llama.VocabTypeNone {
		m.Close()
		return nil, fault.New(fault.ModelVocabularyMissing, component)
	}
	return m.vocab, nil
}

func newVocabulary(l *Library, m *Model) *Vocabulary {
	h := llama.ModelGetVocab(m.handle)
	return &Vocabulary{lib: l, model: m, handle: h, kind: llama.GetVocabType(h), size: int(llama.VocabNTokens(h))}
}

// Close frees what OpenVocabulary has loaded; on the vocabulary of a model it closes
// the model.
func (v *Vocabulary) Close() { v.model.Close() }

// Size is the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// Tokenize gives the ids of a text. special adds what the vocabulary adds by itself
// (such as bos); parse reads control tokens written out in the text. Bytes that are
// not UTF-8 are taken as the vocabulary takes them.
//
// Faults: ModelVocabularyMissing, RequestPromptTooLong beyond 2^31-1 bytes or tokens.
func (v *Vocabulary) Tokenize(text string, special, parse bool) ([]int32, error) {
	if v.kind == llama.VocabTypeNone {
		return nil, fault.New(fault.ModelVocabularyMissing, component)
	}
	const slack = 16 // tokens that special adds
	if len(text) > math.MaxInt32-slack {
		return nil, fault.New(fault.RequestPromptTooLong, component, "tokens", len(text), "context", math.MaxInt32)
	}
	ids := make([]int32, len(text)+slack)
	n := v.tokenize(text, ids, special, parse)
	if n < 0 && n != math.MinInt32 {
		ids = make([]int32, -n)
		n = v.tokenize(text, ids, special, parse)
	}
	if n < 0 {
		return nil, fault.New(fault.RequestPromptTooLong, component, "tokens", "too many", "context", math.MaxInt32)
	}
	return ids[:n], nil
}

// tokenize fills ids and returns their number, or its negative if they do not fit.
func (v *Vocabulary) tokenize(text string, ids []int32, special, parse bool) int {
	bytes := append([]byte(text), 0)
	from, size := unsafe.Pointer(&bytes[0]), int32(len(text))
	to, room := unsafe.Pointer(&ids[0]), int32(len(ids))
	var n ffi.Arg
	v.lib.tokenize.Call(unsafe.Pointer(&n), unsafe.Pointer(&v.handle), unsafe.Pointer(&from), unsafe.Pointer(&size),
		unsafe.Pointer(&to), unsafe.Pointer(&room), unsafe.Pointer(&special), unsafe.Pointer(&parse))
	runtime.KeepAlive(bytes)
	runtime.KeepAlive(ids)
	return int(int32(n))
}

// Pieces is the text of each token; control and unknown tokens have none.
func (v *Vocabulary) Pieces() [][]byte {
	if v.kind == llama.VocabTypeNone {
		return nil
	}
	pieces := make([][]byte, v.size)
	buf := make([]byte, 256)
	for id := range pieces {
		n := llama.TokenToPiece(v.handle, llama.Token(id), buf, 0, false)
		if n < 0 {
			buf = make([]byte, -n)
			n = llama.TokenToPiece(v.handle, llama.Token(id), buf, 0, false)
		}
		pieces[id] = append([]byte{}, buf[:max(0, n)]...)
	}
	return pieces
}

// EOG lists the tokens that end a generation, rising.
func (v *Vocabulary) EOG() []int32 {
	var ids []int32
	if v.kind == llama.VocabTypeNone {
		return nil
	}
	for id := range int32(v.size) {
		if llama.VocabIsEOG(v.handle, llama.Token(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// BOS is the token that begins a text, -1 where there is none.
func (v *Vocabulary) BOS() int32 {
	if v.kind == llama.VocabTypeNone {
		return -1
	}
	return int32(llama.VocabBOS(v.handle))
}

// Template is the model's chat template, a Jinja text; "" where there is none.
func (v *Vocabulary) Template() string { return llama.ModelChatTemplate(v.model.handle, "") }
