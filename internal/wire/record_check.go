package wire

import (
	"fmt"
	"math"

	"muster/internal/fault"
)

// refused is the fault of a record that is not sound.
func refused(format string, args ...any) error {
	return fault.New(fault.StageRecordInvalid, "record", "what", fmt.Sprintf(format, args...))
}

// check refuses the item if it could not stand in a record of the kind.
func (it *Item) check(kind Kind, index int) error {
	switch {
	case it.Marks&^marksKnown != 0:
		return refused("item %d has unknown marks %#x", index, uint16(it.Marks&^marksKnown))
	case it.Position < 0:
		return refused("item %d has position %d", index, it.Position)
	case it.Count < 0 || int64(it.Count) > math.MaxInt32-int64(it.Position):
		return refused("item %d has %d tokens at position %d", index, it.Count, it.Position)
	case len(it.Extra) > 0 && it.Marks&MarkOpen == 0:
		return refused("item %d has an extra and opens nothing", index)
	case it.Marks&(MarkAnswer|MarkLogits) == MarkLogits:
		return refused("item %d wants logits of no answer", index)
	case kind != KindAnswers && it.Count == 0 && it.Marks&MarkAnswer != 0:
		return refused("item %d wants an answer to no token", index)
	}
	return nil
}

// check refuses the record if its parts do not fit together.
func (r *Record) check() error {
	if len(r.Items) == 0 || len(r.Items) > itemsMax {
		return refused("it has %d items", len(r.Items))
	}
	total := 0
	for i := range r.Items {
		if err := r.Items[i].check(r.Kind, i); err != nil {
			return err
		}
		if total += r.Items[i].Count; total > math.MaxInt32 {
			return refused("it has more than %d tokens", math.MaxInt32)
		}
	}
	if err := r.checkWidth(); err != nil {
		return err
	}
	return r.checkPayload(total)
}

func (r *Record) checkWidth() error {
	switch {
	case r.Kind == KindRows && (r.Width < 1 || r.Width > math.MaxInt32):
		return refused("its rows have a width of %d", r.Width)
	case r.Kind != KindRows && r.Width != 0:
		return refused("it has a width of %d and no rows", r.Width)
	}
	return nil
}

// checkPayload refuses a payload that is not what kind and items announce:
// total tokens or rows, or an answer for each item that wants one.
func (r *Record) checkPayload(total int) error {
	var tokens, rows, answers int
	switch r.Kind {
	case KindTokens:
		tokens = total
	case KindRows:
		if int64(total)*int64(r.Width) > payloadMax/4 {
			return refused("%d rows of %d floats are too many", total, r.Width)
		}
		rows = total * r.Width
	case KindAnswers:
		_, answers = countsOf(r.Items)
	default:
		return refused("its kind is %d", r.Kind)
	}
	if len(r.Tokens) != tokens || len(r.Rows) != rows || len(r.Answers) != answers {
		return refused("kind %d of %d tokens holds %d tokens, %d floats and %d answers",
			r.Kind, total, len(r.Tokens), len(r.Rows), len(r.Answers))
	}
	return nil
}

// clamped cuts limits to what a record can have at all, so that they add and
// multiply without overflow.
func (l Limits) clamped() Limits {
	clamp := func(v, most int) int { return min(max(v, 0), most) }
	return Limits{
		Items:      clamp(l.Items, itemsMax),
		Tokens:     clamp(l.Tokens, math.MaxInt32),
		Width:      clamp(l.Width, math.MaxInt32),
		Extra:      clamp(l.Extra, extrasMax),
		Top:        clamp(l.Top, payloadMax/topSize),
		Vocabulary: clamp(l.Vocabulary, payloadMax/4),
	}
}
