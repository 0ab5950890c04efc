package doctor

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/wire"
)

// Patient is a loaded shard that nobody has used yet and nobody else feeds.
type Patient interface {
	// Step sends one record and returns what came of it, which holds until the
	// next call. It ends with ctx.
	Step(ctx context.Context, in *wire.Record) (*wire.Record, error)
	// Stats are the figures of the worker's process.
	Stats(ctx context.Context) (wire.Stats, error)
}

// Exam is what a shard is examined as.
type Exam struct {
	Name       string // component in faults, such as "worker"
	First      bool   // takes token ids
	Last       bool   // answers with logits
	Layers     [2]int // [start,end) of the model
	Width      int    // floats a row
	Vocabulary int    // tokens; first and last stage
	Experts    bool   // a mixture of experts
	Recipe     wire.Recipe

	// Reference is what a preset knows of these layers; nil has the shard
	// checked against itself alone.
	Reference *probe.Reference
	// Verify reads the slices again, as they were handed to the engine, and says
	// how many of their tensors are not the manifest's.
	Verify func(ctx context.Context) (differing int, err error)
	// MemoryPlanned is what the plan was told that the worker can have, in
	// bytes; 0 means unknown.
	MemoryPlanned uint64
	// TokenTime and RowTime are what the load has measured for a single token
	// and for a token of a chunk; 0 means unknown. Deadlines follow from them.
	TokenTime, RowTime time.Duration

	// CellValues is how many keys and values a token has in the KV cache of these
	// layers, CellBytes what a token takes in that of the worker, as its load has
	// measured; where either is 0, which is unknown, they are not compared.
	CellValues, CellBytes uint64

	// Patience is how long a record may take beyond what its tokens take; 0 is
	// 5 s. FillWithin is how long is spent on filling the context; 0 is 20 s.
	Patience, FillWithin time.Duration
	// Tell is told before each part of the examination; nil drops it.
	Tell func(part string)
}

// Of is the exam of layers of a model, as a worker that loaded them by the recipe
// has measured. Verify is for the caller to set, and what else there is.
func Of(f *gguf.File, m *gguf.Model, layers gguf.Range, r wire.Recipe, l wire.Loaded) Exam {
	return Exam{
		First: layers.Start == 0, Last: layers.End == m.Layers, Layers: [2]int{layers.Start, layers.End},
		Width: m.Width, Vocabulary: m.Vocabulary, Experts: m.Experts > 0, Recipe: r,
		TokenTime:  time.Duration(l.TokenMicros) * time.Microsecond,
		RowTime:    time.Duration(l.ChunkMicros) * time.Microsecond / time.Duration(max(1, l.ChunkTokens)),
		CellValues: gguf.CellValues(f, layers), CellBytes: l.CellBytes,
	}
}

// Defaults of an exam.
const (
	patience   = 5 * time.Second
	fillWithin = 20 * time.Second
)

// Findings are what an examination has found.
type Findings struct {
	Name       string `json:"name"` // Exam.Name
	Layers     [2]int `json:"layers"`
	Referenced bool   `json:"referenced"` // a preset's reference was there
	// Checks are those that were made, in the order of probe.Names. All of
	// probe.Required are there unless Fault ended the examination.
	Checks []probe.Check `json:"checks"`
	// Fault is what ended the forward before its end; nil where nothing did.
	Fault *fault.Fault `json:"fault,omitempty"`

	DecodeMicros  float64 `json:"decode_micros"`  // of a single token
	PrefillMicros float64 `json:"prefill_micros"` // of a token of a whole chunk
	ResidentBytes uint64  `json:"resident_bytes"` // of the worker at full context
	Held          int     `json:"held"`           // tokens that all slots held together
	Context       int     `json:"context"`        // tokens of the recipe
	TookMicros    int64   `json:"took_micros"`    // of the examination
}

// Projected reports whether the memory at full context was not reached, within
// FillWithin, but concluded from its growth.
func (f Findings) Projected() bool { return f.Held > 0 && f.Held < f.Context }

// Failed is why the shard failed: what ended its forward, or else its first
// check past the limit; nil where it passed.
func (f Findings) Failed() *fault.Fault {
	if f.Fault != nil {
		return f.Fault
	}
	for _, c := range f.Checks {
		if !c.Passed {
			return f.failedBy(c)
		}
	}
	return nil
}

// failedBy is the fault of a check past its limit.
func (f Findings) failedBy(c probe.Check) *fault.Fault {
	return fault.New(fault.DoctorCheckFailed, f.Name, "layers", fmt.Sprintf("%d:%d", f.Layers[0], f.Layers[1]),
		"check", c.Name, "got", c.Got, "limit", c.Limit, "what", Says(c), "want", Try(c.Name))
}

// LeastContext is the fewest tokens in which the texts of the examination fit.
const LeastContext = 4

// unsound is the fault of an exam that nobody can sit, nil of others.
func (e *Exam) unsound() *fault.Fault {
	what := ""
	switch r := e.Recipe; {
	case e.Width < 1 || (e.First || e.Last) && e.Vocabulary < 1:
		what = fmt.Sprintf("rows of %d floats and a vocabulary of %d", e.Width, e.Vocabulary)
	case e.Layers[0] < 0 || e.Layers[1] <= e.Layers[0]:
		what = fmt.Sprintf("the layers %d to %d", e.Layers[0], e.Layers[1])
	case r.Slots < 1 || r.Chunk < 1 || e.Recipe.Room() < LeastContext || r.Context < r.Slots:
		what = fmt.Sprintf("%d slots, a chunk of %d and a context of %d tokens, where %d are the least", r.Slots, r.Chunk, e.Recipe.Room(), LeastContext)
	case e.Verify == nil:
		what = "nobody to verify the slice"
	case e.Reference != nil:
		what = e.strange(e.Reference)
	}
	if what == "" {
		return nil
	}
	return fault.New(fault.DoctorExamInvalid, e.Name, "what", what)
}

// strange says why a reference is not one of this exam's shard, "" where it is.
func (e *Exam) strange(ref *probe.Reference) string {
	if ref.Layers != e.Layers || ref.Width != e.Width || e.Last && ref.Vocabulary != e.Vocabulary {
		return fmt.Sprintf("a reference of the layers %d to %d with rows of %d floats and a vocabulary of %d",
			ref.Layers[0], ref.Layers[1], ref.Width, ref.Vocabulary)
	}
	fits := false
	for _, p := range ref.Passages {
		n := len(p.Prompt.Tokens)
		in, out, logits := n*e.Width, n*e.Width, 0
		if e.First {
			in = 0
		}
		if e.Last {
			out, logits = 0, e.Vocabulary
		}
		if n == 0 || !e.First && len(p.In) != in || !e.Last && len(p.Out) != out || e.Last && len(p.Logits) != logits {
			return fmt.Sprintf("a reference whose %s prompt has %d tokens, %d floats before and %d behind, and %d logits",
				p.Prompt.Name, n, len(p.In), len(p.Out), len(p.Logits))
		}
		if notFinite(p.In)+notFinite(p.Out)+notFinite(p.Logits) > 0 {
			return fmt.Sprintf("a reference whose %s prompt has numbers that are not finite", p.Prompt.Name)
		}
		fits = fits || n <= e.Recipe.Room()
	}
	if !fits {
		return fmt.Sprintf("a reference without a prompt that fits into %d tokens", e.Recipe.Room())
	}
	return ""
}
