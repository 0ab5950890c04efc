package wire

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"muster/internal/fault"
)

// header is the fixed part of a record as it lies on the wire.
type header struct {
	id, sequence, extent uint64
	kind                 Kind
	items, width, extras uint32
	crc                  uint32
}

// ReadRecord reads exactly one record from r into into, reusing its slices. It
// allocates no more than lim allows, and nothing before the announced sizes have
// been judged. The error is io.EOF only where r ended before the first byte; a
// record that is not sound or ends inside is stage.record_invalid, saying
// `what`; any other error of r is returned as it is. After an error the stream
// cannot be read on, and into is not defined.
func ReadRecord(r io.Reader, lim Limits, into *Record) error {
	lim = lim.clamped()
	into.head = sized(into.head, headerSize)
	if _, err := io.ReadFull(r, into.head); err != nil {
		return ended(err, "header")
	}
	h, err := parseHeader(into.head, lim)
	if err != nil {
		return err
	}
	if err := into.readTable(r, h); err != nil {
		return err
	}
	if err := into.parseItems(h, lim); err != nil {
		return err
	}
	return into.readPayload(r, h, lim)
}

// ended tells the end of the stream inside a record, which is a fault, from
// its end before the record and from errors of the reader.
func ended(err error, part string) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || (part != "header" && errors.Is(err, io.EOF)) {
		return fault.New(fault.StageRecordInvalid, "record", "what", "it ends inside its "+part).Because(io.ErrUnexpectedEOF)
	}
	return err
}

// parseHeader refuses whatever lim or the kind rules out. Sizes it lets pass
// can be added and multiplied without overflow.
func parseHeader(b []byte, lim Limits) (header, error) {
	le := binary.LittleEndian
	h := header{
		id: le.Uint64(b[8:]), sequence: le.Uint64(b[16:]), extent: le.Uint64(b[24:]),
		kind:  Kind(b[32]),
		items: le.Uint32(b[36:]), width: le.Uint32(b[40:]), extras: le.Uint32(b[44:]), crc: le.Uint32(b[48:]),
	}
	switch {
	case le.Uint32(b) != recordMagic:
		return h, refused("it begins with %#08x", le.Uint32(b))
	case le.Uint16(b[4:]) != recordVersion:
		return h, refused("its version is %d, read is %d", le.Uint16(b[4:]), recordVersion)
	case le.Uint16(b[6:]) != headerSize:
		return h, refused("its header has %d bytes", le.Uint16(b[6:]))
	case h.kind < KindTokens || h.kind > KindAnswers:
		return h, refused("its kind is %d", h.kind)
	case b[33] != 0:
		return h, refused("it has unknown flags %#02x", b[33])
	case !zero(b[34:36]) || !zero(b[52:headerSize]):
		return h, refused("its header has reserved bytes set")
	case h.items == 0 || int64(h.items) > int64(lim.Items):
		return h, refused("it has %d items, allowed are %d", h.items, lim.Items)
	case h.extent > payloadMax:
		return h, refused("its payload has %d bytes", h.extent)
	case int64(h.extras) > int64(lim.Extra):
		return h, refused("its extras have %d bytes, allowed are %d", h.extras, lim.Extra)
	case h.kind == KindRows && h.width == 0, int64(h.width) > int64(lim.Width):
		return h, refused("its rows have a width of %d, allowed are %d", h.width, lim.Width)
	case h.kind != KindRows && h.width != 0:
		return h, refused("it has a width of %d and no rows", h.width)
	}
	return h, nil
}

// readTable reads table and extras behind the header and judges the crc.
func (r *Record) readTable(from io.Reader, h header) error {
	rest := int(h.items)*itemSize + int(h.extras)
	r.head = slices.Grow(r.head, rest)[:headerSize+rest]
	if _, err := io.ReadFull(from, r.head[headerSize:]); err != nil {
		return ended(err, "table")
	}
	return h.checkSum(r.head)
}

var zeroSum [4]byte

// checkSum judges the crc of a head: header, table and extras.
func (h header) checkSum(head []byte) error {
	sum := crc32.Update(0, castagnoli, head[:48])
	sum = crc32.Update(sum, castagnoli, zeroSum[:]) // its own field counts as zero
	sum = crc32.Update(sum, castagnoli, head[52:])
	if sum != h.crc {
		return refused("its crc is %08x, its header and table give %08x", h.crc, sum)
	}
	return nil
}

// parseItems fills everything but the payload.
func (r *Record) parseItems(h header, lim Limits) error {
	r.ID, r.Sequence, r.Kind, r.Width = h.id, h.sequence, h.kind, int(h.width)
	var err error
	r.Items, err = h.parseItems(r.Items, r.head, lim)
	return err
}

// parseItems reads the table of a head into items, whose memory it keeps.
func (h header) parseItems(items []Item, head []byte, lim Limits) ([]Item, error) {
	items = sized(items, int(h.items))
	table := head[headerSize : headerSize+len(items)*itemSize]
	extras := head[headerSize+len(table):]
	total := 0
	for i := range items {
		rest, err := items[i].parse(table[i*itemSize:(i+1)*itemSize], extras, i)
		if err != nil {
			return items, err
		}
		if err := items[i].check(h.kind, i); err != nil {
			return items, err
		}
		extras = rest
		if total += items[i].Count; total > lim.Tokens {
			return items, refused("it has %d tokens or more, allowed are %d", total, lim.Tokens)
		}
	}
	if len(extras) != 0 {
		return items, refused("%d bytes of its extras belong to no item", len(extras))
	}
	return items, nil
}

// parse fills the item from its line of the table and returns the extras of
// the items behind it.
func (it *Item) parse(b, extras []byte, index int) (rest []byte, err error) {
	le := binary.LittleEndian
	position, count, extra := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])
	switch {
	case position > math.MaxInt32 || count > math.MaxInt32:
		return nil, refused("item %d has %d tokens at position %d", index, count, position)
	case uint64(extra) > uint64(len(extras)):
		return nil, refused("item %d has an extra of %d bytes, left are %d", index, extra, len(extras))
	case !zero(b[20:itemSize]):
		return nil, refused("item %d has reserved bytes set", index)
	}
	*it = Item{
		Slot: le.Uint16(b), Marks: Mark(le.Uint16(b[2:])), Generation: le.Uint32(b[4:]),
		Position: int32(position), Count: int(count), Extra: extras[:extra:extra],
	}
	return extras[extra:], nil
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
