package engine

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/fault"
)

// ModelParams says how weights are loaded.
type ModelParams struct {
	Repack    bool          // let the engine keep weights in layouts of its own; changes numbers
	GPULayers int           // layers offloaded; 0 keeps every computation on the CPU
	Progress  func(float32) // 0 to 1, on the calling thread; nil for none
}

// Model is the loaded weights of a slice or of a whole model.
type Model struct {
	lib    *Library
	path   string
	handle llama.Model
	width  int
	layers int
	vocab  *Vocabulary

	mu     sync.Mutex
	users  int // contexts open
	closed bool
}

// OpenModel loads the GGUF file at path, which must stay as it is for as long as
// the model is open: a file that shrinks under its map kills the process.
//
// Faults: GGUFFileMissing, StageLoadFailed with the words of llama.cpp.
func (l *Library) OpenModel(path string, p ModelParams) (*Model, error) {
	params := llama.ModelDefaultParams()
	params.UseExtraBufts = 0
	if p.Repack {
		params.UseExtraBufts = 1
	}
	params.NGpuLayers = int32(p.GPULayers)
	return l.openModel(path, params, p)
}

func (l *Library) openModel(path string, params llama.ModelParams, p ModelParams) (*Model, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fault.New(fault.GGUFFileMissing, component, "path", path).Because(err)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, fault.New(fault.GGUFFileMissing, component, "path", path)
	}
	l.opening.Lock()
	defer l.opening.Unlock()
	var none [1]llama.GGMLBackendDevice // an empty list: no device but the CPU
	var pin runtime.Pinner
	defer pin.Unpin()
	if p.GPULayers == 0 {
		pin.Pin(&none)
		if err := params.SetDevices(none[:]); err != nil {
			return nil, fault.New(fault.StageLoadFailed, component, "path", path, "log", err).Because(err)
		}
	}
	l.progress = p.Progress
	defer func() { l.progress = nil }()
	if p.Progress != nil {
		params.ProgressCallback = l.progressCallback
	}
	l.log.forget()
	handle, err := llama.ModelLoadFromFile(path, params)
	if err != nil {
		return nil, fault.New(fault.StageLoadFailed, component, "path", path, "log", l.log.said()).Because(err)
	}
	m := &Model{lib: l, path: path, handle: handle}
	m.width = int(llama.ModelNEmbd(handle))
	m.layers = int(llama.ModelNLayer(handle))
	m.vocab = newVocabulary(l, m)
	return m, nil
}

// Width is n_embd: floats of a row.
func (m *Model) Width() int { return m.width }

// Layers is the number of layers the file holds.
func (m *Model) Layers() int { return m.layers }

// Bytes is the size of the weights, llama_model_size.
func (m *Model) Bytes() uint64 { return llama.ModelSize(m.handle) }

// ContextTrained is the number of tokens the model was trained for.
func (m *Model) ContextTrained() int { return int(llama.ModelNCtxTrain(m.handle)) }

// Vocabulary is that of the file; it lives as long as the model.
func (m *Model) Vocabulary() *Vocabulary { return m.vocab }

// Close frees the weights, or leaves that to the last of its contexts to be
// closed. A second call does nothing.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	m.free()
}

var errClosed = errors.New("the model is closed")

func (m *Model) acquire() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	m.users++
	return nil
}

func (m *Model) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.free()
}

// free is called with mu held.
func (m *Model) free() {
	if !m.closed || m.users > 0 || m.handle == 0 {
		return
	}
	_ = llama.ModelFree(m.handle) // fails only for a handle of 0
	m.handle = 0
}
