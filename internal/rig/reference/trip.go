package reference

import (
	"context"
	"encoding/json"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/preset"
	"muster/internal/rig"
	"muster/internal/wire"
)

// kind is a way to cut a prompt into batches.
type kind int

const (
	whole  kind = iota // chunks of the recipe: the reference
	other              // a third of that
	single             // chunks, and the last tokens one by one
)

// kinds are those that are compared with the reference.
var kinds = []kind{other, single}

// singles is how many tokens are computed one by one: all of a short prompt,
// and enough of a long one to see what a batch of one makes of a long past.
const singles = 32

// trip sends a prompt through one part, each time in a slot opened anew.
type trip struct {
	rig    *rig.Rig
	layers gguf.Range
	facts  *preset.Facts
	ids    []int32
	passed func(tokens int)

	generation uint32
}

func (t *trip) last() bool { return t.layers.End == t.facts.Layers() }

// width is the floats of a row behind the part: of logits behind the last.
func (t *trip) width() int {
	if t.last() {
		return t.facts.Vocabulary
	}
	return t.facts.Width
}

// apart is how far what came out is from what is stored.
func (t *trip) apart(out, stored []float32) probe.Difference {
	return probe.Compare(out, stored, t.width(), t.facts.Share)
}

// batches are the sizes of the batches, in order.
func (t *trip) batches(k kind) []int {
	n, chunk, ones := len(t.ids), t.facts.Recipe.Chunk, 0
	switch k {
	case other:
		chunk = max(1, min(chunk, n)/3)
	case single:
		ones = min(n, singles)
	case whole:
	}
	var sizes []int
	for left := n - ones; left > 0; left -= chunk {
		sizes = append(sizes, min(left, chunk))
	}
	for range ones {
		sizes = append(sizes, 1)
	}
	return sizes
}

// through sends the prompt's rows, or its ids where there are none yet, and
// returns the rows behind the part, or the logits of the last token.
func (t *trip) through(ctx context.Context, rows []float32, batches []int) ([]float32, error) {
	t.generation++
	var end []float32
	at := 0
	for _, n := range batches {
		in, err := t.record(rows, at, n)
		if err != nil {
			return nil, err
		}
		out, err := t.rig.Step(ctx, in)
		if err != nil {
			return nil, err
		}
		end = append(end, out.Rows...)
		if len(out.Answers) > 0 {
			end = out.Answers[0].Logits
		}
		at += n
		t.passed(n)
	}
	want := t.width()
	if !t.last() {
		want *= len(t.ids)
	}
	if len(end) != want {
		return nil, fault.New(fault.StageRowsMismatch, "reference", "got", len(end), "want", want)
	}
	return end, finite(end, t.layers)
}

// record is the batch of n tokens from at.
func (t *trip) record(rows []float32, at, n int) (*wire.Record, error) {
	it := wire.Item{Generation: t.generation, Position: int32(at), Count: n}
	if at == 0 {
		it.Marks = wire.MarkOpen
		var err error
		if it.Extra, err = json.Marshal(wire.SlotOpen{Sampling: infer.Greedy(), Prompt: t.ids}); err != nil {
			return nil, fault.New(fault.InternalUnexpected, "reference").Because(err)
		}
	}
	if t.last() && at+n == len(t.ids) {
		it.Marks |= wire.MarkAnswer | wire.MarkLogits
	}
	if rows == nil {
		return &wire.Record{Kind: wire.KindTokens, Items: []wire.Item{it}, Tokens: t.ids[at : at+n]}, nil
	}
	w := t.facts.Width
	return &wire.Record{Kind: wire.KindRows, Width: w, Items: []wire.Item{it}, Rows: rows[at*w : (at+n)*w]}, nil
}
