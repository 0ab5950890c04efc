package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"muster/internal/fault"
)

const component = "gguf"

// maxHeader bounds what a header may take of memory: the largest vocabularies
// known make headers of about 20 MB.
const maxHeader = 512 << 20

// cursor reads a header from its start. The first failure stays in err; after
// it every read gives zeroes, so that callers look once per group of reads.
type cursor struct {
	name string
	size int64 // of the file
	at   int64
	in   *bufio.Reader
	err  error
}

func newCursor(r io.ReaderAt, size int64, name string) *cursor {
	return &cursor{name: name, size: size, in: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 16<<10)}
}

func (c *cursor) invalid(format string, args ...any) {
	if c.err == nil {
		c.err = fault.New(fault.GGUFHeaderInvalid, component, "path", c.name, "what", fmt.Sprintf(format, args...))
	}
}

// has reports whether n more bytes are in the file and within maxHeader.
func (c *cursor) has(n uint64) bool {
	switch {
	case c.err != nil:
	case n > uint64(c.size-c.at):
		c.err = fault.New(fault.GGUFHeaderTruncated, component, "path", c.name, "size", c.size)
	case n > uint64(maxHeader-c.at):
		c.invalid("it is larger than %d MiB", maxHeader>>20)
	}
	return c.err == nil
}

func (c *cursor) read(b []byte) {
	if !c.has(uint64(len(b))) {
		return
	}
	n, err := io.ReadFull(c.in, b)
	c.at += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		c.err = fault.New(fault.GGUFHeaderTruncated, component, "path", c.name, "size", c.at)
	default:
		c.err = fault.New(fault.GGUFFileUnreadable, component, "path", c.name).Because(err)
	}
}

func (c *cursor) uint32() uint32 {
	var b [4]byte
	c.read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

func (c *cursor) uint64() uint64 {
	var b [8]byte
	c.read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// bytes takes memory only after the file has been found to hold n bytes more.
func (c *cursor) bytes(n uint64) []byte {
	if !c.has(n) {
		return nil
	}
	b := make([]byte, n)
	c.read(b)
	return b
}

// label reads the name of a key or a tensor: at most limit bytes, none of them
// a control character, because llama.cpp reads names as C strings.
func (c *cursor) label(of string, limit uint64) string {
	n := c.uint64()
	if c.err == nil && (n == 0 || n > limit) {
		c.invalid("a %s's name has %d bytes, 1 to %d are allowed", of, n, limit)
	}
	b := c.bytes(n)
	for _, x := range b {
		if x < 0x20 || x == 0x7f {
			c.invalid("a %s's name holds a control character", of)
		}
	}
	return string(b)
}
