package wire

// HeaderSize is the bytes of a record's fixed header.
const HeaderSize = headerSize

// Frame says where a record ends, for those who pass records on as they lie.
// It judges all that ReadRecord judges but the inside of answers. Memory of a
// frame is kept for the next record.
type Frame struct {
	ID       uint64 // object id
	Sequence uint64
	Kind     Kind
	Head     int // bytes of header, table and extras
	Extent   int // bytes of payload behind them

	h     header
	items []Item // of the head that was judged last
}

// Begin takes the fixed header, the first HeaderSize bytes of a record. It
// refuses, with stage.record_invalid saying `what`, whatever ReadRecord
// refuses by the header alone, so that Head can be waited for and held.
func (f *Frame) Begin(b []byte, lim Limits) error {
	h, err := parseHeader(b[:headerSize], lim.clamped())
	if err != nil {
		return err
	}
	f.ID, f.Sequence, f.Kind, f.h = h.id, h.sequence, h.kind, h
	f.Head = headerSize + int(h.items)*itemSize + int(h.extras)
	f.Extent = int(h.extent)
	return nil
}

// Judge takes the whole head, Head bytes, of which Begin has seen the first.
// After it Extent is what table and kind announce, or the record is refused
// with stage.record_invalid.
func (f *Frame) Judge(head []byte, lim Limits) error {
	lim = lim.clamped()
	if err := f.h.checkSum(head[:f.Head]); err != nil {
		return err
	}
	var err error
	if f.items, err = f.h.parseItems(f.items, head[:f.Head], lim); err != nil {
		return err
	}
	total, answers := countsOf(f.items)
	return f.h.checkExtent(total, answers, lim)
}

// Size is the bytes of the whole record.
func (f *Frame) Size() int { return f.Head + f.Extent }
