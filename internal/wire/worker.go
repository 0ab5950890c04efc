// Package wire holds what crosses a process border: the worker protocol and
// the object records. Codecs only: it opens nothing and decides nothing.
//
// The worker protocol is one JSON object a line. The daemon writes Requests to
// the worker's stdin; the worker writes Replies to its stdout. Replies carry
// the id of their request; unsolicited ones have id 0. Payload bytes never
// travel here: they go through the arena.
package wire

import "muster/internal/fault"

// WorkerProtocol is the version both binaries must share; it is told in Open
// and refused when different.
const WorkerProtocol = 1

// LifelineFD is the descriptor at which a worker finds the reading end of its
// parent's lifeline pipe: end of file means that the parent is gone.
const LifelineFD = 3

// Op names what a Request asks.
type Op string

// The requests in the order of a worker's life. Open comes first; Attach and one
// Load, in either order, come before Serve; a vocabulary is only loaded. Ping,
// Stats and Stop are answered in every phase, also while weights load or a step
// computes.
const (
	OpOpen     Op = "open"
	OpLoad     Op = "load"
	OpTrial    Op = "trial"
	OpAttach   Op = "attach"
	OpServe    Op = "serve"
	OpTokenize Op = "tokenize"
	OpVocab    Op = "vocab"
	OpStats    Op = "stats"
	OpPing     Op = "ping"
	OpStop     Op = "stop"
)

// Request is one line from daemon to worker. Just the field of Op is set.
type Request struct {
	ID       uint64    `json:"id"` // from 1, rising
	Op       Op        `json:"op"`
	Open     *Open     `json:"open,omitempty"`
	Load     *Load     `json:"load,omitempty"`
	Trial    *Trial    `json:"trial,omitempty"`
	Attach   *Attach   `json:"attach,omitempty"`
	Tokenize *Tokenize `json:"tokenize,omitempty"`
}

// Reply is one line from worker to daemon: the answer to a request (ID set and
// Fault or the field of its op), progress of a request (Progress set), or a
// fault of the pump that nobody asked for (ID 0, Fault set).
type Reply struct {
	ID       uint64       `json:"id,omitempty"`
	Progress *Progress    `json:"progress,omitempty"`
	Fault    *fault.Fault `json:"fault,omitempty"`
	Opened   *Opened      `json:"opened,omitempty"`
	Loaded   *Loaded      `json:"loaded,omitempty"`
	Tokens   []int32      `json:"tokens,omitempty"`
	Vocab    *Vocab       `json:"vocab,omitempty"`
	Stats    *Stats       `json:"stats,omitempty"`
}

// Open tells a worker who it is and where its engine is.
type Open struct {
	Protocol int    `json:"protocol"`
	Name     string `json:"name"`      // component in faults, such as "worker 1"
	Engine   string `json:"engine"`    // folder of the llama.cpp libraries
	LogLevel int    `json:"log_level"` // least ggml level sent to stderr: 1 debug, 2 info, 3 warn, 4 error
}

// Opened answers Open: the engine is loaded and the ABI guard has passed.
type Opened struct {
	PID     int      `json:"pid"`
	Engine  string   `json:"engine"` // llama_version()
	System  string   `json:"system"` // llama_print_system_info()
	Devices []Device `json:"devices"`
}

// Device is one device the engine can compute on.
type Device struct {
	Kind        string `json:"kind"` // cpu, gpu, igpu, accel
	Name        string `json:"name"`
	Description string `json:"description"`
	MemoryFree  uint64 `json:"memory_free"`  // bytes
	MemoryTotal uint64 `json:"memory_total"` // bytes
}

// Recipe is how a shard is run. Its numbers change the results, so all stages
// and the reference share one.
type Recipe struct {
	Context        int    `json:"context"`         // tokens of all slots together
	Slots          int    `json:"slots"`           // sequences served at once
	Chunk          int    `json:"chunk"`           // tokens a batch at most (n_batch = n_ubatch)
	Threads        int    `json:"threads"`         // compute threads; 0: measured, Load.ThreadsMost at most
	KVType         string `json:"kv_type"`         // "f16"
	FlashAttention string `json:"flash_attention"` // "auto", "on", "off"
	Repack         bool   `json:"repack"`          // let the engine repack weights (extra buffers)
	GPULayers      int    `json:"gpu_layers"`      // layers offloaded; 0 computes on the CPU
	Deterministic  bool   `json:"deterministic"`   // a batch is of one slot, and each slot has cells of its own
}

// Share is how many tokens one slot may hold, of prompt and answer together: the
// slots have even parts of the context, so that none can take another's.
func (r Recipe) Share() int { return r.Context / max(1, r.Slots) }

// Room is how many tokens one slot can hold while the others are empty.
func (r Recipe) Room() int {
	if r.Deterministic { // its cells are its own
		return r.Share()
	}
	return r.Context
}

// LoadKind says what a worker is to hold.
type LoadKind string

// A stage takes rows or token ids from a ring; a whole model is the yardstick
// of stages; a vocabulary only tokenises.
const (
	LoadStage      LoadKind = "stage"
	LoadWhole      LoadKind = "whole"
	LoadVocabulary LoadKind = "vocabulary"
)

// Load names the files of a shard. First and Last say whether the stage takes
// token ids and whether it samples; a whole model does both.
type Load struct {
	Kind           LoadKind `json:"kind"`
	Path           string   `json:"path"`                      // slice, model or vocabulary file
	Embedding      string   `json:"embedding,omitempty"`       // first stage: GGUF with token_embd.weight alone
	EmbeddingScale float32  `json:"embedding_scale,omitempty"` // first stage: factor on looked-up rows, 0 means 1
	First          bool     `json:"first,omitempty"`
	Last           bool     `json:"last,omitempty"`
	Layers         [2]int   `json:"layers"` // [start,end) of the model
	Recipe         Recipe   `json:"recipe"`
	ThreadsMost    int      `json:"threads_most,omitempty"` // tried where the recipe leaves the threads open
}

// Loaded answers Load of a stage or a whole model.
type Loaded struct {
	Width         int    `json:"width"`          // n_embd: floats a row
	Vocabulary    int    `json:"vocabulary"`     // tokens; 0 but on the last stage
	Layers        int    `json:"layers"`         // layers held
	Context       int    `json:"context"`        // tokens the KV cache holds in fact
	Threads       int    `json:"threads"`        // compute threads in use
	ModelBytes    uint64 `json:"model_bytes"`    // weights, llama_model_size
	ResidentBytes uint64 `json:"resident_bytes"` // of the process, after the trial forward
	TokenMicros   int64  `json:"token_micros"`   // measured: a decode of one token
	ChunkMicros   int64  `json:"chunk_micros"`   // measured: a batch of ChunkTokens
	ChunkTokens   int    `json:"chunk_tokens"`   // tokens of that batch
	CellBytes     uint64 `json:"cell_bytes"`     // measured: what one more token takes in the KV cache; 0 where nothing was measured
}

// Trial has the worker run a forward through a small slice and forget it: proof
// that engine and device compute. It may be asked before Load.
type Trial struct {
	Path string `json:"path"` // a middle stage's slice
}

// EchoSize is how many bytes an Attach with Echo reads and writes.
const EchoSize = 64

// Echo is what a worker answers to the bytes of an Attach with Echo: each with
// all its bits turned, so that a ring that was never crossed cannot pass.
func Echo(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// Attach hands a worker its rings. With Echo it reads EchoSize bytes from In and
// writes their Echo to Out before it answers: proof that both sides map the same
// memory. Descriptors are those of the worker,
// numbered from LifelineFD+1 in the order in which they were passed.
type Attach struct {
	ArenaFD   int     `json:"arena_fd"`
	ArenaSize int64   `json:"arena_size"` // bytes
	In        RingEnd `json:"in"`
	Out       RingEnd `json:"out"`
	Echo      bool    `json:"echo,omitempty"`
}

// RingEnd says where a ring lies in the arena and which doorbells its end has.
type RingEnd struct {
	Ring     uint64 `json:"ring"`     // id, never reused within an arena
	Offset   uint64 `json:"offset"`   // bytes from the start of the arena
	Capacity uint64 `json:"capacity"` // bytes, a power of two
	WaitFD   int    `json:"wait_fd"`  // read end: wakes this end
	RingFD   int    `json:"ring_fd"`  // write end: wakes the other end
}

// Tokenize asks for the ids of a text.
type Tokenize struct {
	Text    string `json:"text"`    // UTF-8
	Special bool   `json:"special"` // add what the vocabulary adds by itself (bos)
	Parse   bool   `json:"parse"`   // read control tokens in the text
}

// Vocab answers OpVocab of a vocabulary or last stage.
type Vocab struct {
	Pieces   [][]byte `json:"pieces"`   // text of each id; control tokens are empty
	EOG      []int32  `json:"eog"`      // ids that end a generation, rising
	BOS      int32    `json:"bos"`      // -1 where there is none
	Template string   `json:"template"` // chat template of the model, may be empty
}

// Progress reports how far a Load is, 0 to 1.
type Progress struct {
	Done float32 `json:"done"`
}

// Stats answers OpStats with figures since the stage was attached.
type Stats struct {
	ResidentBytes uint64 `json:"resident_bytes"`
	Records       uint64 `json:"records"`     // batches decoded
	Tokens        uint64 `json:"tokens"`      // rows decoded
	BusyMicros    int64  `json:"busy_micros"` // spent in llama_decode
}
