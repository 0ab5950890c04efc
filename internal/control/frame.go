package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"muster/internal/wire/controlpb"
)

// FrameLimit bounds a message in bytes. The largest is the manifest of a model
// with thousands of tensors.
const FrameLimit = 4 << 20

const (
	headLength = 4
	firstRoom  = 64 << 10 // bytes taken before they have come
)

// frameOf is m with its length before it, as it is sent. Its error is a
// FieldError.
func frameOf(m proto.Message) ([]byte, error) {
	size := proto.Size(m)
	if size > FrameLimit {
		return nil, tooLong(size)
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, headLength+size), uint32(size))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		return nil, &controlpb.FieldError{Field: "message", What: "cannot be sent: " + err.Error()}
	}
	return b, nil
}

// readFrame reads the one frame of a direction into m, to the end of the
// direction. What the peer sent wrongly is a FieldError; any other error is the
// stream's.
func readFrame(r io.Reader, m proto.Message) error {
	var head [headLength]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		return halfFrame(err, n, headLength)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > FrameLimit {
		return tooLong(int(size))
	}
	// Memory follows the bytes that have come, not the length that was said.
	var body bytes.Buffer
	body.Grow(int(min(size, firstRoom)) + bytes.MinRead)
	if _, err := body.ReadFrom(io.LimitReader(r, int64(size))); err != nil {
		return err
	}
	if body.Len() < int(size) {
		return halfFrame(io.ErrUnexpectedEOF, body.Len(), int(size))
	}
	if err := readEnd(r); err != nil {
		return err
	}
	return controlpb.Decode(body.Bytes(), m)
}

// readEnd reads the end of a direction.
func readEnd(r io.Reader) error {
	var more [1]byte
	n, err := io.ReadFull(r, more[:])
	switch {
	case n > 0:
		return &controlpb.FieldError{Field: "frame", What: "is followed by more"}
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// halfFrame says that a direction ended within a frame; other errors pass.
func halfFrame(err error, n, want int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &controlpb.FieldError{Field: "frame", What: fmt.Sprintf("ended after %d of %d bytes", n, want)}
	}
	return err
}

func tooLong(size int) error {
	return &controlpb.FieldError{Field: "frame", What: fmt.Sprintf("has %d bytes, at most %d are taken", size, FrameLimit)}
}
