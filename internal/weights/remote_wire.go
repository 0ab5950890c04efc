package weights

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/internal/fault"
)

// Protocol is the name under which streams for reading weights are opened.
const Protocol = "muster/weights/1"

// Stream is one stream in both directions. A call past a deadline fails.
type Stream interface {
	io.Reader
	io.Writer
	CloseWrite() error
	Cancel(code uint32)
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// On the stream, all numbers little-endian:
//
//	request  size 4 │ part 4 │ offset 8 │ n 4 │ revision, the rest of size
//	reply    segments until n bytes have come: length 4 │ bytes
//	         or, with the top bit of length set: a fault as JSON, which ends it
//
// Requests are answered one after the other, in order.
const (
	mostBlock    = 4 << 20   // bytes of a request
	segment      = 256 << 10 // bytes of a segment at most
	mostFault    = 64 << 10
	mostRevision = 128
	faultBit     = 1 << 31
	requestFixed = 16 // without size and revision
)

// span is n bytes at an offset of a part.
type span struct {
	part   int
	offset int64
	n      int
}

type request struct {
	revision string
	span
}

func (q request) append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(requestFixed+len(q.revision)))
	dst = le.AppendUint32(dst, uint32(q.part))
	dst = le.AppendUint64(dst, uint64(q.offset))
	dst = le.AppendUint32(dst, uint32(q.n))
	return append(dst, q.revision...)
}

// readRequest reads one request; io.EOF says that the peer wants no more.
func readRequest(r io.Reader) (request, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return request{}, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n <= requestFixed || n > requestFixed+mostRevision {
		return request{}, badRequest("it claims %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return request{}, err
	}
	return parseRequest(b)
}

func parseRequest(b []byte) (request, error) {
	le := binary.LittleEndian
	part, offset, n := le.Uint32(b), le.Uint64(b[4:]), le.Uint32(b[12:])
	switch {
	case part >= maxParts:
		return request{}, badRequest("it asks for part %d", part)
	case n == 0 || n > mostBlock:
		return request{}, badRequest("it asks for %d bytes, allowed are 1 to %d", n, mostBlock)
	case offset > 1<<62:
		return request{}, badRequest("it asks for offset %d", offset)
	}
	return request{string(b[requestFixed:]), span{int(part), int64(offset), int(n)}}, nil
}

// maxParts is how many parts a split model can have: its file names have five
// digits.
const maxParts = 99_999

func badRequest(format string, args ...any) error {
	return fault.New(fault.WeightsRequestInvalid, remoteComponent, "what", fmt.Sprintf(format, args...))
}

func badReply(format string, args ...any) error {
	return fault.New(fault.WeightsReplyInvalid, remoteComponent, "what", fmt.Sprintf(format, args...))
}

// appendFault appends a segment that says why the rest does not come.
func appendFault(dst []byte, f *fault.Fault) []byte {
	b, err := json.Marshal(f)
	if err != nil || len(b) > mostFault {
		b, _ = json.Marshal(fault.New(f.Code, f.Component)) // strings alone: it cannot fail
	}
	dst = binary.LittleEndian.AppendUint32(dst, faultBit|uint32(len(b)))
	return append(dst, b...)
}

// readSegment reads the header of a segment and returns its length, or
// the fault that it is. most is what is owed: it claims no more.
func readSegment(r io.Reader, most int) (n int, err error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	word := binary.LittleEndian.Uint32(b[:])
	if word&faultBit == 0 {
		if word == 0 || int64(word) > int64(min(most, segment)) {
			return 0, badReply("a segment claims %d bytes, %d are owed", word, most)
		}
		return int(word), nil
	}
	length := word &^ faultBit
	if length > mostFault {
		return 0, badReply("a fault claims %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, err
	}
	f := new(fault.Fault)
	if err := json.Unmarshal(text, f); err != nil || f.Code == "" {
		return 0, badReply("a fault is not readable")
	}
	return 0, &told{f}
}

// told is a fault that came over the stream, which tells it from one of the
// stream.
type told struct{ f *fault.Fault }

func (t *told) Error() string { return t.f.Error() }

func (t *told) Unwrap() error { return t.f }
