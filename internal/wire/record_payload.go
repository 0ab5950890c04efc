package wire

import (
	"encoding/binary"
	"io"
	"math"
)

// readPayload reads what the table has announced and empties the payload
// fields of other kinds.
func (r *Record) readPayload(from io.Reader, h header, lim Limits) error {
	r.Tokens, r.Rows, r.Answers = r.Tokens[:0], r.Rows[:0], r.Answers[:0]
	total, answers := countsOf(r.Items)
	if err := h.checkExtent(total, answers, lim); err != nil {
		return err
	}
	switch h.kind {
	case KindTokens:
		r.Tokens = sized(r.Tokens, total)
		return readWords(from, r.Tokens)
	case KindRows:
		r.Rows = sized(r.Rows, total*r.Width)
		return readWords(from, r.Rows)
	case KindAnswers:
	}
	return r.readAnswers(from, int(h.extent), answers, lim)
}

// checkExtent compares the bytes of payload with what the table announces:
// total tokens or rows, or answers, whose bytes are known to bounds only.
func (h header) checkExtent(total, answers int, lim Limits) error {
	switch h.kind {
	case KindTokens:
		if want := 4 * uint64(total); h.extent != want {
			return refused("%d tokens have %d bytes", total, h.extent)
		}
	case KindRows:
		if want := 4 * uint64(total) * uint64(h.width); h.extent != want {
			return refused("%d rows of %d floats have %d bytes", total, h.width, h.extent)
		}
	default:
		most := answerMin + topSize*int64(lim.Top) + 4*int64(lim.Vocabulary)
		if extent := int64(h.extent); extent < int64(answers)*answerMin || extent > int64(answers)*most {
			return refused("%d answers have %d bytes", answers, h.extent)
		}
	}
	return nil
}

// readWords fills w straight from the reader: no second copy of a payload.
func readWords[W words](from io.Reader, w []W) error {
	b := bytesOf(w)
	if _, err := io.ReadFull(from, b); err != nil {
		return ended(err, "payload")
	}
	turn(b)
	return nil
}

func (r *Record) readAnswers(from io.Reader, extent, count int, lim Limits) error {
	r.payload = sized(r.payload, extent)
	if _, err := io.ReadFull(from, r.payload); err != nil {
		return ended(err, "payload")
	}
	if cap(r.Answers) < count {
		r.Answers = append(r.Answers[:cap(r.Answers)], make([]Answer, count-cap(r.Answers))...)
	}
	r.Answers = r.Answers[:count]
	rest := r.payload
	for i := range r.Answers {
		var err error
		if rest, err = r.Answers[i].parse(rest, lim, i); err != nil {
			return err
		}
	}
	if len(rest) != 0 {
		return refused("%d bytes of its payload belong to no answer", len(rest))
	}
	return nil
}

// parse fills the answer from the front of b, reusing its slices, and returns
// what is behind it.
func (a *Answer) parse(b []byte, lim Limits, index int) (rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < answerMin {
		return nil, refused("answer %d is cut off", index)
	}
	a.Token, a.Logprob = int32(le.Uint32(b)), math.Float32frombits(le.Uint32(b[4:]))
	tops := le.Uint32(b[8:])
	b = b[12:]
	if int64(tops) > int64(lim.Top) || topSize*int64(tops)+4 > int64(len(b)) {
		return nil, refused("answer %d has %d tops, allowed are %d", index, tops, lim.Top)
	}
	a.Top = sized(a.Top, int(tops))
	for i := range a.Top {
		a.Top[i] = TokenLogprob{Token: int32(le.Uint32(b)), Logprob: math.Float32frombits(le.Uint32(b[4:]))}
		b = b[topSize:]
	}
	logits := le.Uint32(b)
	b = b[4:]
	if int64(logits) > int64(lim.Vocabulary) || 4*int64(logits) > int64(len(b)) {
		return nil, refused("answer %d has %d logits, allowed are %d", index, logits, lim.Vocabulary)
	}
	a.Logits = sized(a.Logits, int(logits))
	copyWords(a.Logits, b)
	return b[4*logits:], nil
}
