package weights

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"muster/internal/fault"
)

const remoteComponent = "weights"

const (
	idleRequest  = 2 * time.Minute  // between two requests of a stream
	stalledWrite = 30 * time.Second // for a segment to be taken
)

// Lookup returns a part of a published revision and its bytes. Its error is
// told to whoever asks, as the fault it is or as weights.revision_unknown.
type Lookup func(revision string, part int) (io.ReaderAt, int64, error)

// ServeReads answers the requests of one stream until the peer ends it or ctx
// does, which gives nil. It holds one segment of memory and one request at a
// time: how many streams there are is its caller's to bound. A request that
// cannot be answered is told to the peer as a fault, which ends the stream and
// is returned: weights.request_invalid, weights.revision_unknown,
// weights.source_truncated, weights.source_unreadable, or that of lookup.
// Errors of the stream come as they are.
func ServeReads(ctx context.Context, s Stream, lookup Lookup) error {
	stop := context.AfterFunc(ctx, func() { s.Cancel(0) })
	defer stop()
	buf := make([]byte, 4+segment)
	for {
		refused, err := serveOne(s, lookup, buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == io.EOF: //nolint:errorlint // a stream's end is io.EOF itself
			return s.CloseWrite()
		case err != nil:
			s.Cancel(0)
			return err
		case refused != nil:
			return farewell(s, refused)
		}
	}
}

// farewell tells a fault, ends the stream and returns the fault.
func farewell(s Stream, f *fault.Fault) error {
	err := send(s, appendFault(nil, f))
	if err == nil {
		err = s.CloseWrite()
	}
	if err != nil {
		s.Cancel(0)
	}
	return f
}

// serveOne answers one request. refused is why it cannot, err what ended the
// stream.
func serveOne(s Stream, lookup Lookup, buf []byte) (refused *fault.Fault, err error) {
	if err := s.SetReadDeadline(time.Now().Add(idleRequest)); err != nil {
		return nil, err
	}
	q, err := readRequest(s)
	if errors.Is(err, fault.WeightsRequestInvalid) {
		return fault.From(err), nil
	}
	if err != nil {
		return nil, err
	}
	in, size, err := lookup(q.revision, q.part)
	if err != nil {
		return unknown(q, err), nil
	}
	if q.offset > size || int64(q.n) > size-q.offset {
		return truncated(q.span, size), nil
	}
	return sendSpan(s, q.span, in, buf)
}

func sendSpan(s Stream, q span, in io.ReaderAt, buf []byte) (refused *fault.Fault, err error) {
	for at, end := q.offset, q.offset+int64(q.n); at < end; {
		n := int(min(end-at, segment))
		got, err := in.ReadAt(buf[4:4+n], at)
		switch {
		case got == n:
		case errors.Is(err, io.EOF):
			return truncated(q, at+int64(got)), nil
		default:
			return fault.New(fault.WeightsSourceUnreadable, remoteComponent, "part", q.part).Because(err), nil
		}
		binary.LittleEndian.PutUint32(buf, uint32(n))
		if err := send(s, buf[:4+n]); err != nil {
			return nil, err
		}
		at += int64(n)
	}
	return nil, nil
}

func truncated(q span, size int64) *fault.Fault {
	return fault.New(fault.WeightsSourceTruncated, remoteComponent, "part", q.part, "size", size, "want", q.offset+int64(q.n))
}

// unknown is the fault of a lookup that failed: its own where it has one.
func unknown(q request, err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.New(fault.WeightsRevisionUnknown, remoteComponent, "revision", q.revision).Because(err)
}

func send(s Stream, b []byte) error {
	if err := s.SetWriteDeadline(time.Now().Add(stalledWrite)); err != nil {
		return err
	}
	_, err := s.Write(b)
	return err
}
