package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"muster/internal/fault"
)

// LineLimit bounds a line of the worker protocol in bytes, its end included.
// The longest is the table of pieces of a large vocabulary.
const LineLimit = 64 << 20

// keepLine is the largest buffer a LineReader holds on to between lines, bytes.
const keepLine = 1 << 20

// LineReader reads a stream of one JSON object a line, strictly: a field that
// is not known, a second value on the line or a line over the limit is refused.
type LineReader struct {
	r     *bufio.Reader
	limit int
	line  []byte
}

// NewLineReader reads lines of at most limit bytes from r.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// Next reads one line into the value that into points at. It returns io.EOF
// when the stream ends between lines, io.ErrUnexpectedEOF when it ends inside
// one, a fault worker.protocol_broken for a line that is not understood, and
// the stream's own error otherwise. After an error nothing more can be read.
func (l *LineReader) Next(into any) error {
	line, err := l.read()
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return broken(fmt.Sprintf("%s in %s", err, excerpt(line)))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return broken("more than one value in " + excerpt(line))
	}
	return nil
}

func (l *LineReader) read() ([]byte, error) {
	if cap(l.line) > keepLine {
		l.line = nil
	}
	l.line = l.line[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > l.limit {
			return nil, broken(fmt.Sprintf("a line of more than %d bytes", l.limit))
		}
		if cap(l.line)-len(l.line) < len(part) {
			l.line = slices.Grow(l.line, max(len(l.line), len(part))) // doubles: lines can be long
		}
		l.line = append(l.line, part...)
		switch {
		case err == nil:
			return l.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// AppendLine appends v as one line of the worker protocol to dst. It refuses
// what a LineReader of LineLimit would refuse for its length.
func AppendLine(dst []byte, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return dst, fault.New(fault.InternalUnexpected, "").Because(err)
	}
	if len(b)+1 > LineLimit {
		return dst, broken(fmt.Sprintf("a line of %d bytes was to be written, at most %d are read", len(b)+1, LineLimit))
	}
	dst = append(dst, b...)
	return append(dst, '\n'), nil
}

func broken(what string) *fault.Fault {
	return fault.New(fault.WorkerProtocolBroken, "", "what", what)
}

// excerpt is the start of a line, quoted, short enough for a fault.
func excerpt(line []byte) string {
	const most = 120
	line = bytes.TrimRight(line, "\n")
	if len(line) <= most {
		return fmt.Sprintf("%q", line)
	}
	return fmt.Sprintf("%q and %d bytes more", line[:most], len(line)-most)
}
