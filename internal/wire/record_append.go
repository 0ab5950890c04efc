package wire

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the whole encoding to dst and returns it. It refuses, with
// stage.record_invalid and dst as it was, whatever ReadRecord would refuse
// under limits wide enough; payload fields of other kinds must be empty.
func (r *Record) Append(dst []byte) ([]byte, error) {
	if err := r.check(); err != nil {
		return dst, err
	}
	extras, extent := r.extras(), r.extent()
	if extras > extrasMax || extent > payloadMax {
		return dst, refused("it has %d bytes of extras and %d of payload", extras, extent)
	}
	start := len(dst)
	dst = slices.Grow(dst, headerSize+len(r.Items)*itemSize+extras+extent)
	dst = r.appendHeader(dst, extras, extent)
	for i := range r.Items {
		dst = r.Items[i].append(dst)
	}
	for i := range r.Items {
		dst = append(dst, r.Items[i].Extra...)
	}
	sum := crc32.Checksum(dst[start:], castagnoli)
	binary.LittleEndian.PutUint32(dst[start+48:], sum)
	return r.appendPayload(dst), nil
}

// extras is the number of bytes of all items' extras.
func (r *Record) extras() int {
	n := 0
	for i := range r.Items {
		n += len(r.Items[i].Extra)
	}
	return n
}

// extent is the number of payload bytes.
func (r *Record) extent() int {
	n := 4 * (len(r.Tokens) + len(r.Rows))
	for i := range r.Answers {
		n += answerMin + topSize*len(r.Answers[i].Top) + 4*len(r.Answers[i].Logits)
	}
	return n
}

// appendHeader writes the header with a crc of zero.
func (r *Record) appendHeader(dst []byte, extras, extent int) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, recordMagic)
	dst = le.AppendUint16(dst, recordVersion)
	dst = le.AppendUint16(dst, headerSize)
	dst = le.AppendUint64(dst, r.ID)
	dst = le.AppendUint64(dst, r.Sequence)
	dst = le.AppendUint64(dst, uint64(extent))
	dst = append(dst, byte(r.Kind), 0, 0, 0)
	dst = le.AppendUint32(dst, uint32(len(r.Items)))
	dst = le.AppendUint32(dst, uint32(r.Width))
	dst = le.AppendUint32(dst, uint32(extras))
	return append(dst, make([]byte, 16)...)
}

func (it *Item) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(dst, it.Slot)
	dst = le.AppendUint16(dst, uint16(it.Marks))
	dst = le.AppendUint32(dst, it.Generation)
	dst = le.AppendUint32(dst, uint32(it.Position))
	dst = le.AppendUint32(dst, uint32(it.Count))
	dst = le.AppendUint32(dst, uint32(len(it.Extra)))
	return append(dst, make([]byte, 12)...)
}

func (r *Record) appendPayload(dst []byte) []byte {
	switch r.Kind {
	case KindTokens:
		return appendWords(dst, r.Tokens)
	case KindRows:
		return appendWords(dst, r.Rows)
	case KindAnswers:
	}
	le := binary.LittleEndian
	for i := range r.Answers {
		a := &r.Answers[i]
		dst = le.AppendUint32(dst, uint32(a.Token))
		dst = le.AppendUint32(dst, math.Float32bits(a.Logprob))
		dst = le.AppendUint32(dst, uint32(len(a.Top)))
		for _, top := range a.Top {
			dst = le.AppendUint32(dst, uint32(top.Token))
			dst = le.AppendUint32(dst, math.Float32bits(top.Logprob))
		}
		dst = le.AppendUint32(dst, uint32(len(a.Logits)))
		dst = appendWords(dst, a.Logits)
	}
	return dst
}
