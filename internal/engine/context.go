package engine

import (
	"fmt"
	"math"
	"runtime"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Role says what a context takes and gives.
type Role int

// The roles.
const (
	Middle Role = iota // rows in, rows out
	Last               // rows in, logits out
	Whole              // token ids in, logits out
)

// ContextParams says how a model is run.
type ContextParams struct {
	Recipe  wire.Recipe // Repack and GPULayers belong to the model and are not read here
	Role    Role
	Outputs int // cells of a batch that may ask for logits; 0 means one a slot

	goFilter bool // use the evaluation callback in Go where there is one in assembly
}

// Context is a model with a KV cache: the state of Recipe.Slots sequences.
type Context struct {
	model   *Model
	role    Role
	handle  llama.Context
	memory  llama.Memory
	pool    llama.Threadpool
	batch   llama.Batch
	pin     runtime.Pinner
	capture *capture // Middle only

	chunk, slots, context, outputs int

	alone bool // a batch is of one slot

	next     []int       // per slot: the position its next cell must have
	rows     []float32   // Middle: room for chunk rows, written by the filter
	captured int         // floats of rows that the last decode gave
	cells    []wire.Cell // of the last decode that went well
}

// NewContext makes the KV cache and the compute buffers. It refuses what the machine
// could not hold if it were empty; that there is room among all else is for the caller to
// know, since what the system promises and cannot give ends the process.
//
// Faults: RecipeInvalid, RecipeContextTooLarge, StageContextRefused where llama.cpp
// cannot allocate.
func (m *Model) NewContext(p ContextParams) (*Context, error) {
	params, err := contextParams(p)
	if err != nil {
		return nil, err
	}
	if err := m.acquire(); err != nil {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if err := m.room(p.Recipe); err != nil {
		m.release()
		return nil, err
	}
	c := newContext(m, p, params)
	if p.Role == Middle {
		c.watch(fmt.Sprintf("l_out-%d", m.layers-1), &params, p.goFilter)
	}
	if err := c.open(params); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// room compares what a context takes at least with the machine's whole memory:
// llama.cpp would fill memory for minutes before it fails.
func (m *Model) room(r wire.Recipe) error {
	const cell = 48 // bytes of bookkeeping llama.cpp keeps for a cell, at least
	heads := max(1, llama.ModelNHead(m.handle))
	row := uint64(llama.ModelNHeadKV(m.handle)) * uint64(m.width) / uint64(heads) // values of a key
	mask := 2 * uint64(r.Chunk)
	need := uint64(r.Context) * (cell + mask + 2*row*uint64(m.layers))
	for _, d := range m.lib.devices {
		if d.Kind == "cpu" && d.MemoryTotal > 0 && need > d.MemoryTotal {
			return fault.New(fault.RecipeContextTooLarge, component,
				"context", r.Context, "need", gigabytes(need), "available", gigabytes(d.MemoryTotal))
		}
	}
	return nil
}

func gigabytes(n uint64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

func newContext(m *Model, p ContextParams, params llama.ContextParams) *Context {
	return &Context{
		model: m, role: p.Role,
		chunk: p.Recipe.Chunk, slots: p.Recipe.Slots, outputs: int(params.NOutputsMax),
		alone: p.Recipe.Deterministic, next: make([]int, p.Recipe.Slots),
	}
}

// watch makes each computation end after the node of that name, whose rows are kept.
func (c *Context) watch(node string, params *llama.ContextParams, goFilter bool) {
	lib := c.model.lib
	c.capture, c.rows = newCapture(node, c.model.width, c.chunk, lib.tensorGet, &c.pin)
	params.CbEval, params.CbEvalUserData = lib.filter(), c.capture.address()
	if goFilter {
		params.CbEval = lib.evalCallback
	}
}

func (c *Context) open(params llama.ContextParams) error {
	l := c.model.lib
	l.opening.Lock()
	defer l.opening.Unlock()
	l.log.forget()
	refused := func(cause error) error {
		return fault.New(fault.StageContextRefused, component,
			"context", params.NCtx, "log", l.log.said()).Because(cause)
	}
	pool := llama.ThreadpoolParamsDefault(params.NThreads)
	pool.Poll = 0 // a stage that waits must not spin
	var err error
	if c.pool, err = llama.ThreadpoolNew(&pool); err != nil {
		return refused(err)
	}
	if c.handle, err = llama.InitFromModel(c.model.handle, params); err != nil {
		return refused(err)
	}
	llama.AttachThreadpool(c.handle, uintptr(c.pool), uintptr(c.pool))
	if c.memory, err = llama.GetMemory(c.handle); err != nil {
		return refused(err)
	}
	c.context = int(llama.NCtx(c.handle))
	width := int32(c.model.width)
	if c.role == Whole {
		width = 0
	}
	c.batch = llama.BatchInit(int32(c.chunk), width, 1)
	return nil
}

// Context is the number of cells the KV cache holds in fact, those of all slots
// together.
func (c *Context) Context() int { return c.context }

// SlotBytes is what a slot's cells take, as llama.cpp would write them out: keys,
// values, and a few bytes about each cell and each layer.
func (c *Context) SlotBytes(slot int) uint64 {
	return llama.StateSeqGetSize(c.handle, llama.SeqId(slot))
}

// Close frees the context. A second call does nothing.
func (c *Context) Close() {
	if c.model == nil {
		return
	}
	if c.handle != 0 {
		_ = llama.Free(c.handle) // fails only for a handle of 0
	}
	llama.ThreadpoolFree(c.pool)
	if c.batch.Pos != nil {
		_ = llama.BatchFree(c.batch) // never fails
	}
	c.pin.Unpin()
	c.model.release()
	*c = Context{}
}

var kvTypes = map[string]llama.GGMLType{
	"f32": llama.GGMLTypeF32, "f16": llama.GGMLTypeF16, "bf16": llama.GGMLTypeBF16, "q8_0": llama.GGMLTypeQ8_0,
}

var flashAttention = map[string]llama.FlashAttentionType{
	"auto": llama.FlashAttentionTypeAuto,
	"on":   llama.FlashAttentionTypeEnabled,
	"off":  llama.FlashAttentionTypeDisabled,
}

// contextParams checks a recipe and puts it into llama.cpp's words.
func contextParams(p ContextParams) (llama.ContextParams, error) {
	r := p.Recipe
	for _, f := range []struct {
		field      string
		value, top int
	}{
		{"context", r.Context, math.MaxInt32},
		{"slots", r.Slots, maxSlots},
		{"chunk", r.Chunk, maxChunk},
		{"threads", r.Threads, maxThreads},
	} {
		if f.value < 1 || f.value > f.top {
			return llama.ContextParams{}, recipeFault(f.field, f.value, fmt.Sprintf("1 to %d", f.top))
		}
	}
	if r.Chunk < r.Slots { // llama.cpp plans for a token of each slot in a batch, and aborts
		return llama.ContextParams{}, recipeFault("chunk", r.Chunk, fmt.Sprintf("%d or more, a token for each slot", r.Slots))
	}
	kv, known := kvTypes[r.KVType]
	if !known {
		return llama.ContextParams{}, recipeFault("kv_type", r.KVType, "f16, f32, bf16 or q8_0")
	}
	flash, known := flashAttention[r.FlashAttention]
	if !known {
		return llama.ContextParams{}, recipeFault("flash_attention", r.FlashAttention, "auto, on or off")
	}
	if kv == llama.GGMLTypeQ8_0 && r.FlashAttention == "off" {
		return llama.ContextParams{}, recipeFault("kv_type", r.KVType, "a quantised KV cache needs flash attention")
	}
	outputs := p.Outputs
	switch {
	case p.Role == Middle:
		outputs = r.Chunk // a cell without output would be cut from the last layer's rows
	case outputs == 0:
		outputs = r.Slots
	}
	if outputs < 1 {
		return llama.ContextParams{}, recipeFault("outputs", outputs, "1 or more")
	}
	c := llama.ContextDefaultParams()
	c.NCtx = uint32(r.Context)
	c.NBatch, c.NUbatch = uint32(r.Chunk), uint32(r.Chunk)
	c.NSeqMax = uint32(r.Slots)
	c.NOutputsMax, c.NOutputsMaxPerSeq = uint32(min(outputs, r.Chunk)), 0
	c.NThreads, c.NThreadsBatch = int32(r.Threads), int32(r.Threads)
	c.TypeK, c.TypeV = kv, kv
	c.FlashAttentionType = flash
	// Otherwise batches are regrouped by slot and rows change their order: with a
	// cache for each slot, a batch is of one. Where a token's cell lies in a shared
	// cache depends on what the other slots did, and its place in a sum with it.
	c.KVUnified = 1
	if r.Deterministic {
		c.KVUnified = 0
	}
	return c, nil
}

// Bounds of a recipe: LLAMA_MAX_SEQ, a batch that can be counted in 32 bits of
// bytes, GGML_MAX_N_THREADS.
const (
	maxSlots   = 256
	maxChunk   = 1 << 16
	maxThreads = 512
)

func recipeFault(field string, value any, want string) *fault.Fault {
	return fault.New(fault.RecipeInvalid, component, "field", field, "value", value, "want", want)
}
