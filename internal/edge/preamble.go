package edge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// Preamble is what a stream says of itself before its first record.
type Preamble struct {
	Run     id.RunID
	Edge    id.EdgeID
	Attempt uint32
}

const (
	preambleMagic = 0x4745544d // "MTEG" as the bytes lie
	endMagic      = 0x4645544d // "MTEF"
	version       = 1
	preambleSize  = 48
	endSize       = 16
)

// Append appends the preamble's bytes to dst.
func (p Preamble) Append(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, preambleMagic)
	dst = le.AppendUint16(dst, version)
	dst = le.AppendUint16(dst, preambleSize)
	dst = append(dst, p.Run[:]...)
	dst = append(dst, p.Edge[:]...)
	dst = le.AppendUint32(dst, p.Attempt)
	return le.AppendUint32(dst, 0)
}

// ReadPreamble reads the start of a stream and not a byte more. Faults:
// edge.preamble_invalid, edge.preamble_overdue; an error of the stream is the
// cause of the former.
func ReadPreamble(r Receiver, within time.Duration) (Preamble, error) {
	var b [preambleSize]byte
	if err := r.SetReadDeadline(time.Now().Add(within)); err != nil {
		return Preamble{}, badPreamble("the stream cannot be waited on").Because(err)
	}
	n, err := io.ReadFull(r, b[:])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Preamble{}, fault.New(fault.EdgePreambleOverdue, component, "waited", within)
	case err != nil:
		return Preamble{}, badPreamble("%d bytes of %d came", n, preambleSize).Because(err)
	}
	if err := r.SetReadDeadline(time.Time{}); err != nil {
		return Preamble{}, badPreamble("the stream cannot be waited on").Because(err)
	}
	return parsePreamble(b[:])
}

func parsePreamble(b []byte) (Preamble, error) {
	le := binary.LittleEndian
	p := Preamble{Run: id.RunID(b[8:24]), Edge: id.EdgeID(b[24:40]), Attempt: le.Uint32(b[40:])}
	switch {
	case le.Uint32(b) != preambleMagic:
		return Preamble{}, badPreamble("it begins with %#08x", le.Uint32(b))
	case le.Uint16(b[4:]) != version:
		return Preamble{}, badPreamble("its version is %d, read is %d", le.Uint16(b[4:]), version)
	case le.Uint16(b[6:]) != preambleSize:
		return Preamble{}, badPreamble("it claims %d bytes", le.Uint16(b[6:]))
	case p.Run.IsZero() || p.Edge.IsZero():
		return Preamble{}, badPreamble("it names no run or no edge")
	case le.Uint32(b[44:]) != 0:
		return Preamble{}, badPreamble("reserved bytes are set")
	}
	return p, nil
}

func badPreamble(format string, args ...any) *fault.Fault {
	return fault.New(fault.EdgePreambleInvalid, component, "what", fmt.Sprintf(format, args...))
}

// endMark is what ends a stream of so many records.
func endMark(records uint64) []byte {
	le := binary.LittleEndian
	dst := le.AppendUint32(make([]byte, 0, endSize), endMagic)
	dst = le.AppendUint16(dst, version)
	dst = le.AppendUint16(dst, 0)
	return le.AppendUint64(dst, records)
}

// isEnd reports whether b, of at least endSize bytes, begins an end mark.
func isEnd(b []byte) bool { return binary.LittleEndian.Uint32(b) == endMagic }

// checkEnd says what is wrong with an end mark after so many records, "" where
// nothing is.
func checkEnd(b []byte, records uint64) string {
	le := binary.LittleEndian
	switch said := le.Uint64(b[8:]); {
	case le.Uint16(b[4:]) != version || le.Uint16(b[6:]) != 0:
		return fmt.Sprintf("its mark has version %d", le.Uint16(b[4:]))
	case said != records:
		return fmt.Sprintf("it claims %d records, %d came", said, records)
	}
	return ""
}
