// Package probe holds the words between a preset's reference, the doctor that
// judges by it and the report that tells of it: prompts, what a range of layers
// must make of them, how near to that it has to be, and the checks there are.
package probe

// Prompt is a text of the probe as the model's token ids.
type Prompt struct {
	Name   string  `json:"name"` // Short or Long
	Tokens []int32 `json:"tokens"`
}

// The names of the prompts. Short fits into one batch of any recipe in use;
// Long does not.
const (
	Short = "short"
	Long  = "long"
)

// Passage is one prompt on its way through a range of layers. Rows are hidden
// states, one a token, width floats each, in token order.
type Passage struct {
	Prompt Prompt
	In     []float32 // rows before the range; nil for the first stage, which takes the ids
	Out    []float32 // rows behind the range; nil for the last stage
	Logits []float32 // of the last token, one a token of the vocabulary; last stage only
}

// Tolerance is how near to the reference another machine, batch or kernel has
// to come. Both figures are of the worst row, as Compare gives it by Share.
type Tolerance struct {
	// Share of a prompt's rows that are held to it: 1, and less for a mixture of
	// experts, where rounding throws a row to another expert now and then.
	Share    float64 `json:"share"`
	Cosine   float64 `json:"cosine"`   // the cosine to the reference's row is at least this
	Relative float64 `json:"relative"` // the largest difference in units of the reference row's root mean square is at most this
}

// Reference is what a preset knows of one range of layers.
type Reference struct {
	Revision   string // digest of the model, as of gguf.Manifest
	Layers     [2]int // [start,end)
	Width      int    // floats a row
	Vocabulary int    // tokens
	Passages   []Passage
	Tolerance  Tolerance
}

// Check is the judgement of one aspect of a forward.
type Check struct {
	Name   string  `json:"name"`   // one of Names
	Passed bool    `json:"passed"` // Got is within Limit, in the sense of the check
	Got    float64 `json:"got"`    // the figure, in the unit of the check; finite
	Limit  float64 `json:"limit"`  // what it was held against; finite
}

// The checks, in the order in which they are made.
const (
	Slice     = "slice"     // tensors of the slice, as handed to the engine, that are not the manifest's: 0
	Finite    = "finite"    // numbers that are NaN or infinite: 0
	Cosine    = "cosine"    // least cosine of a row to the reference's
	Relative  = "relative"  // largest difference to the reference, in root mean squares of its row
	TopToken  = "top_token" // prompts whose most probable token is another than the reference's: 0 (last stage)
	Repeat    = "repeat"    // largest difference between two runs of the same, in root mean squares: 0
	Stepwise  = "stepwise"  // largest difference between prefill and token by token, in root mean squares
	Sensitive = "sensitive" // least difference that another input makes, in root mean squares: more than 0
	Rollback  = "rollback"  // largest difference after a roll-back, in root mean squares: 0
	Full      = "full"      // tokens that the slots hold together at full context
	Memory    = "memory"    // resident bytes at full context, against what the plan was told
	Decode    = "decode"    // microseconds for one token: more than 0
	Prefill   = "prefill"   // microseconds a token of a whole chunk: more than 0
)

// Names lists the checks in their order.
func Names() []string {
	return []string{Slice, Finite, Cosine, Relative, TopToken, Repeat, Stepwise, Sensitive, Rollback, Full, Memory, Decode, Prefill}
}

// Required lists the checks that a report must hold for a range of layers:
// those against a reference where there is one, the top token on the last stage
// of them alone.
func Required(referenced, last bool) []string {
	var names []string
	for _, n := range Names() {
		switch n {
		case Cosine, Relative:
			if !referenced {
				continue
			}
		case TopToken:
			if !referenced || !last {
				continue
			}
		}
		names = append(names, n)
	}
	return names
}

// Within reports whether a figure is within its limit, in the sense of the
// check; false for a name that is no check and for figures that are no numbers.
func Within(name string, got, limit float64) bool {
	switch name {
	case Cosine, Full:
		return got >= limit
	case Sensitive, Decode, Prefill:
		return got > limit
	case Slice, Finite, Relative, TopToken, Repeat, Stepwise, Rollback, Memory:
		return got <= limit
	}
	return false
}
