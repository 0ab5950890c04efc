package doctor

import (
	"encoding/json"
	"fmt"

	"muster/internal/wire"
)

// generation is that of every slot the doctor opens.
const generation = 1

// seat is a slot in use.
type seat struct {
	v     *visit
	slot  int
	next  int // position of the next token
	marks wire.Mark
	extra []byte
}

// seat takes a slot for a text of n tokens at most. It is opened by its first
// record.
func (v *visit) seat(slot, n int) (*seat, error) {
	// The last stage wants to know the tokens of a prompt, for its penalties
	// alone: the doctor reads logits before any sampler.
	extra, err := json.Marshal(wire.SlotOpen{
		Sampling: wire.Sampling{TopP: 1, RepeatPenalty: 1, Logprobs: -1}, Prompt: make([]int32, n),
	})
	if err != nil {
		return nil, fmt.Errorf("encode an opening: %w", err)
	}
	return &seat{v: v, slot: slot, marks: wire.MarkOpen, extra: extra}, nil
}

// item is the seat's next n tokens in a record, with logits of the last where
// they are wanted and the stage has some.
func (s *seat) item(n int, answer bool) wire.Item {
	it := wire.Item{Slot: uint16(s.slot), Marks: s.marks, Generation: generation, Position: int32(s.next), Count: n, Extra: s.extra}
	if answer && s.v.exam.Last {
		it.Marks |= wire.MarkAnswer | wire.MarkLogits
	}
	return it
}

// took says that the seat's item of n tokens has been computed.
func (s *seat) took(n int) {
	s.marks, s.extra = 0, nil
	s.next += n
	s.v.holding += n
}

// feed has one record of the text computed, and returns a copy of the rows that
// came of it; on the last stage the logits of its last token, if wanted.
func (s *seat) feed(t text, answer bool) ([]float32, error) {
	out, err := s.v.step([]wire.Item{s.item(t.len(), answer)}, t)
	if err != nil {
		return nil, err
	}
	s.took(t.len())
	if len(out.Answers) > 0 {
		return append([]float32(nil), out.Answers[0].Logits...), nil
	}
	return append([]float32(nil), out.Rows...), nil
}

// chunks feeds a text in chunks of the recipe. It returns a row a token, on the
// last stage the last token's logits.
func (s *seat) chunks(t text) (rows []float32, err error) {
	return s.fed(t, s.v.exam.Recipe.Chunk, false)
}

// singly feeds a text token by token. It returns a row or logits of each.
func (s *seat) singly(t text) (rows []float32, err error) {
	return s.fed(t, 1, true)
}

func (s *seat) fed(t text, chunk int, each bool) (rows []float32, err error) {
	for at := 0; at < t.len(); at += chunk {
		end := min(at+chunk, t.len())
		got, err := s.feed(t.cut(at, end), each || end == t.len())
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

// back rolls the seat back to a position, with its next record.
func (s *seat) back(to int) {
	s.v.holding -= s.next - to
	s.next = to
	s.marks |= wire.MarkTrim
}

// end frees the slot.
func (s *seat) end() error {
	if s.marks&wire.MarkOpen != 0 {
		return nil // it was never opened
	}
	it := s.item(0, false)
	it.Marks = wire.MarkEnd
	none := text{width: s.v.exam.Width}
	if s.v.exam.First {
		none.width = 0
	}
	if _, err := s.v.step([]wire.Item{it}, none); err != nil {
		return err
	}
	s.v.holding -= s.next
	return nil
}

// once feeds a text into a slot of its own and frees it.
func (v *visit) once(t text) ([]float32, error) {
	s, err := v.seat(0, t.len())
	if err != nil {
		return nil, err
	}
	rows, err := s.chunks(t)
	if err != nil {
		return nil, err
	}
	return rows, s.end()
}
