package admit

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
)

const component = "admission"

// Schema is the form of reports that this build writes and reads.
const Schema = 1

// Purpose says how a node came to hold a shard.
type Purpose string

// The purposes.
const (
	ForStage Purpose = "stage" // a plan gave it to the node
	ForOffer Purpose = "offer" // the node's operator chose it
)

// Report is what a node tells of the shard that it holds, after a real forward.
type Report struct {
	Schema uint32 `json:"schema"`
	Binding
	Challenge Challenge     `json:"challenge"` // what the tracker gave before the forward
	Sequence  uint64        `json:"sequence"`  // from 1, rising with each report of a boot
	Checks    []probe.Check `json:"checks"`
	Capacity  Capacity      `json:"capacity"`
	Speed     Speed         `json:"speed"`
	Age       time.Duration `json:"age_ns"` // from the end of the forward to the signing
}

// Binding is what a report is good for, and for nothing else.
type Binding struct {
	Purpose      Purpose   `json:"purpose"`
	Run          id.RunID  `json:"run"`     // of a stage; none for an offer
	Attempt      uint32    `json:"attempt"` // of a stage, from 1; 0 for an offer
	Pool         string    `json:"pool"`    // its name
	Epoch        uint64    `json:"epoch"`   // of the pool's definition
	Orchestrator id.NodeID `json:"orchestrator"`
	Node         id.NodeID `json:"node"`
	Boot         id.BootID `json:"boot"`
	Revision     Digest    `json:"revision"` // of the model, as of gguf.Manifest
	Layers       [2]int    `json:"layers"`   // [start,end)
	Depth        int       `json:"depth"`    // layers of the whole model
	Digests
	Referenced bool `json:"referenced"` // the checks were against a preset's reference
}

// Digests are what must stay as it is while a shard serves.
type Digests struct {
	Slice     Digest `json:"slice"`     // of the layers' weights, as handed to the engine
	Embedding Digest `json:"embedding"` // of the embedding, as handed to the engine; none but on the first stage
	Recipe    Digest `json:"recipe"`    // RecipeDigest
	Backend   Digest `json:"backend"`   // Backend.Digest
}

// Capacity is what the shard holds at full context.
type Capacity struct {
	Context       int    `json:"context"` // tokens of all slots together
	Slots         int    `json:"slots"`
	ResidentBytes uint64 `json:"resident_bytes"` // of the worker
}

// Speed is what the forward measured.
type Speed struct {
	TokenMicros int64 `json:"token_micros"` // a decode of one token
	ChunkMicros int64 `json:"chunk_micros"` // a batch of ChunkTokens
	ChunkTokens int   `json:"chunk_tokens"`
}

// The bounds of a report's shape.
const (
	mostText   = 64 // bytes of a name
	mostChecks = 64
	mostLayers = 1 << 16
	mostCount  = 1 << 40 // tokens, slots, microseconds
)

// flaw says what is not of the shape of a report: such a one is neither signed
// nor read. What it says may still be refused.
func (r *Report) flaw() *fault.Fault {
	say := func(field, format string, args ...any) *fault.Fault {
		return fault.New(fault.AdmitReportInvalid, component, "field", field, "what", fmt.Sprintf(format, args...))
	}
	if field, what := r.Binding.flaw(); field != "" {
		return say(field, "%s", what)
	}
	switch {
	case r.Challenge.IsZero():
		return say("challenge", "is missing")
	case r.Sequence == 0:
		return say("sequence", "is missing")
	case len(r.Checks) > mostChecks:
		return say("checks", "has %d entries, at most %d are read", len(r.Checks), mostChecks)
	}
	for _, c := range r.Checks {
		if !named(c.Name) {
			return say("checks", "has a name that is empty, longer than %d bytes or no UTF-8", mostText)
		}
		if !finite(c.Got) || !finite(c.Limit) {
			return say("checks", "has a figure of %s that is not finite", c.Name)
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"capacity.context", int64(r.Capacity.Context)},
		{"capacity.slots", int64(r.Capacity.Slots)},
		{"speed.token_micros", r.Speed.TokenMicros},
		{"speed.chunk_micros", r.Speed.ChunkMicros},
		{"speed.chunk_tokens", int64(r.Speed.ChunkTokens)},
	} {
		if n.value < 0 || n.value > mostCount {
			return say(n.field, "cannot be %d", n.value)
		}
	}
	return nil
}

// flaw names the first field that is not sound, and why; "" where all are.
func (b *Binding) flaw() (field, what string) {
	const missing = "is missing"
	stage := b.Purpose == ForStage
	switch {
	case !stage && b.Purpose != ForOffer:
		return "purpose", "is none that is known"
	case stage == b.Run.IsZero():
		return "run", "must be there for a stage, and for nothing else"
	case stage == (b.Attempt == 0):
		return "attempt", "must be there for a stage, and for nothing else"
	case !named(b.Pool):
		return "pool", fmt.Sprintf("is empty, longer than %d bytes or no UTF-8", mostText)
	case b.Epoch == 0:
		return "epoch", missing
	case b.Orchestrator.IsZero():
		return "orchestrator", missing
	case b.Node.IsZero():
		return "node", missing
	case b.Boot.IsZero():
		return "boot", missing
	case b.Revision.IsZero():
		return "revision", missing
	case b.Depth > mostLayers || b.Layers[0] < 0 || b.Layers[0] >= b.Layers[1] || b.Layers[1] > b.Depth:
		return "layers", fmt.Sprintf("cannot be %d:%d of %d", b.Layers[0], b.Layers[1], b.Depth)
	case b.Slice.IsZero():
		return "slice", missing
	case b.First() == b.Embedding.IsZero():
		return "embedding", "must be there on the first stage, and on no other"
	case b.Recipe.IsZero():
		return "recipe", missing
	case b.Backend.IsZero():
		return "backend", missing
	}
	return "", ""
}

// First reports whether the shard takes token ids.
func (b *Binding) First() bool { return b.Layers[0] == 0 }

// Last reports whether the shard samples.
func (b *Binding) Last() bool { return b.Layers[1] == b.Depth }

func named(text string) bool { return text != "" && len(text) <= mostText && utf8.ValidString(text) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
