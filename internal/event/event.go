// Package event lists every lifecycle event of Muster, past tense and subject
// first, with its wire form. It knows nothing of who tells or who listens.
package event

import (
	"encoding/json"
	"time"

	"muster/internal/fault"
)

// Event is one thing that happened. Name is its name on the wire, as
// component.subject_participle.
type Event interface{ Name() string }

// ModelInspected: the header of a model has been read and is one Muster serves.
type ModelInspected struct {
	Model        string `json:"model"` // as the user named it
	Architecture string `json:"architecture"`
	Layers       int    `json:"layers"`
	Bytes        int64  `json:"bytes"` // of all its files
}

// SliceProgressed: weights are being read, checked or written.
type SliceProgressed struct {
	Slice string `json:"slice"` // what is made, such as "layers 0-3"
	Done  int64  `json:"done"`  // bytes
	Total int64  `json:"total"` // bytes
}

// SliceReady: the weights of a stage lie verified in their file.
type SliceReady struct {
	Slice  string `json:"slice"`
	Bytes  int64  `json:"bytes"`
	Cached bool   `json:"cached"` // found, not written

	// Replaced says what was wrong with a slice found in its place; nil where
	// nothing was.
	Replaced *fault.Fault `json:"replaced,omitempty"`
}

// WorkerStarted: a worker process runs and its engine passed the guard.
type WorkerStarted struct {
	Worker string `json:"worker"`
	PID    int    `json:"pid"`
	Engine string `json:"engine"` // version
	Device string `json:"device"` // what it computes on
}

// WeightsProgressed: a worker is loading its slice.
type WeightsProgressed struct {
	Worker string  `json:"worker"`
	Done   float32 `json:"done"` // 0 to 1
}

// StageLoaded: a worker has run a forward through its layers.
type StageLoaded struct {
	Worker        string `json:"worker"`
	Layers        [2]int `json:"layers"` // [start,end)
	ResidentBytes uint64 `json:"resident_bytes"`
	TokenMicros   int64  `json:"token_micros"` // a decode of one token
	Threads       int    `json:"threads"`
}

// ChainReady: every stage is ready and joined to its neighbours.
type ChainReady struct {
	Workers int           `json:"workers"`
	Took    time.Duration `json:"took_ns"`
}

// ChainFaulted: the chain ended by its first fault.
type ChainFaulted struct {
	Fault *fault.Fault `json:"fault"`
}

// Name implements Event.
func (ModelInspected) Name() string { return "model.inspected" }

// Name implements Event.
func (SliceProgressed) Name() string { return "slice.progressed" }

// Name implements Event.
func (SliceReady) Name() string { return "slice.ready" }

// Name implements Event.
func (WorkerStarted) Name() string { return "worker.started" }

// Name implements Event.
func (WeightsProgressed) Name() string { return "worker.weights_progressed" }

// Name implements Event.
func (StageLoaded) Name() string { return "stage.loaded" }

// Name implements Event.
func (ChainReady) Name() string { return "chain.ready" }

// Name implements Event.
func (ChainFaulted) Name() string { return "chain.faulted" }

// Stamped is an event with its time, as it is written and sent.
type Stamped struct {
	Time  time.Time
	Event Event
}

// MarshalJSON writes {"time":…,"event":name,…fields}.
func (s Stamped) MarshalJSON() ([]byte, error) {
	fields, err := json.Marshal(s.Event)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
	}{s.Time.UTC(), s.Event.Name()})
	if err != nil {
		return nil, err
	}
	if len(fields) <= len("{}") {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), fields[1:]...), nil
}
