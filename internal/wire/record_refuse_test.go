package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"muster/internal/fault"
)

// seal makes the crc of a changed record right again, as a sender of another
// mind would.
func seal(b []byte) {
	if len(b) < headerSize {
		return
	}
	le := binary.LittleEndian
	end := uint64(headerSize) + itemSize*uint64(le.Uint32(b[36:])) + uint64(le.Uint32(b[44:]))
	if end > uint64(len(b)) {
		return
	}
	clear(b[48:52])
	le.PutUint32(b[48:], crc32.Checksum(b[:end], castagnoli))
}

// headLength is what the crc of a record covers.
func headLength(r *Record) int { return headerSize + len(r.Items)*itemSize + r.extras() }

func TestAFlippedBitInHeaderOrTableIsRefused(t *testing.T) {
	for _, r := range samples() {
		good := encoded(t, r)
		for bit := range 8 * headLength(r) {
			b := bytes.Clone(good)
			b[bit/8] ^= 1 << (bit % 8)
			var got Record
			if err := ReadRecord(bytes.NewReader(b), wide, &got); !errors.Is(err, fault.StageRecordInvalid) {
				t.Errorf("kind %d, bit %d of byte %d: %v", r.Kind, bit%8, bit/8, err)
			}
		}
	}
}

// With the crc made right, a changed bit is refused too or is what the reader
// gets to see: nothing is dropped or put right in silence.
func TestAFlippedBitUnderAGoodCRCIsRefusedOrSeen(t *testing.T) {
	for _, r := range samples() {
		good := encoded(t, r)
		for bit := range 8 * len(good) {
			b := bytes.Clone(good)
			b[bit/8] ^= 1 << (bit % 8)
			seal(b)
			exactly(t, b)
		}
	}
}

// exactly reads b and demands that what was accepted is encoded as the same
// bytes.
func exactly(t testing.TB, b []byte) {
	t.Helper()
	var got Record
	from := bytes.NewReader(b)
	err := ReadRecord(from, wide, &got)
	if err == nil {
		again, err := got.Append(nil)
		if err != nil {
			t.Fatalf("accepted and then not encoded: %v", err)
		}
		if read := b[:len(b)-from.Len()]; !bytes.Equal(again, read) {
			t.Fatalf("read %x\nsaw  %x", read, again)
		}
		return
	}
	if err != io.EOF && !errors.Is(err, fault.StageRecordInvalid) {
		t.Fatalf("an error of another kind: %v", err)
	}
	if err == io.EOF && len(b) > 0 {
		t.Fatal("io.EOF after the first byte")
	}
}

func TestARecordCutAnywhereIsRefused(t *testing.T) {
	for _, r := range samples() {
		good := encoded(t, r)
		for n := range good {
			var got Record
			err := ReadRecord(iotest.OneByteReader(bytes.NewReader(good[:n])), wide, &got)
			switch {
			case n == 0 && err != io.EOF:
				t.Errorf("nothing at all: %v", err)
			case n > 0 && (!errors.Is(err, fault.StageRecordInvalid) || !errors.Is(err, io.ErrUnexpectedEOF)):
				t.Errorf("kind %d cut at %d: %v", r.Kind, n, err)
			}
		}
	}
}

func TestTheReadersOwnErrorComesThrough(t *testing.T) {
	closed := fault.New(fault.ArenaRingClosed, "arena", "ring", 7)
	good := encoded(t, samples()[1])
	for n := range good {
		var got Record
		from := io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(closed))
		if err := ReadRecord(from, wide, &got); err != error(closed) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestLimitsAreExact(t *testing.T) {
	s := samples()
	tokens, rows, answers := s[0], s[1], s[2]
	exact := Limits{Items: 3, Tokens: 3, Width: 2, Extra: tokens.extras(), Top: 2, Vocabulary: 3}
	for _, r := range s {
		var got Record
		if err := ReadRecord(bytes.NewReader(encoded(t, r)), exact, &got); err != nil {
			t.Errorf("kind %d under its own size: %v", r.Kind, err)
		}
	}
	for name, c := range map[string]struct {
		r     *Record
		lower func(*Limits)
	}{
		"items":      {tokens, func(l *Limits) { l.Items-- }},
		"tokens":     {tokens, func(l *Limits) { l.Tokens-- }},
		"extra":      {tokens, func(l *Limits) { l.Extra-- }},
		"width":      {rows, func(l *Limits) { l.Width-- }},
		"top":        {answers, func(l *Limits) { l.Top-- }},
		"vocabulary": {answers, func(l *Limits) { l.Vocabulary-- }},
		"below zero": {tokens, func(l *Limits) { l.Items = -1 }},
	} {
		lim := exact
		c.lower(&lim)
		var got Record
		if err := ReadRecord(bytes.NewReader(encoded(t, c.r)), lim, &got); !errors.Is(err, fault.StageRecordInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a header announces costs nothing before it has been judged.
func TestARefusedHeaderTakesNoMemory(t *testing.T) {
	small := Limits{Items: 4, Tokens: 16, Width: 8, Extra: 64, Top: 2, Vocabulary: 16}
	for name, change := range map[string]func(b []byte){
		"extent": func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 1<<30) },
		"items":  func(b []byte) { binary.LittleEndian.PutUint32(b[36:], math.MaxUint32) },
		"width":  func(b []byte) { binary.LittleEndian.PutUint32(b[40:], math.MaxUint32) },
		"extras": func(b []byte) { binary.LittleEndian.PutUint32(b[44:], math.MaxUint32) },
	} {
		for _, r := range samples() {
			b := encoded(t, r)
			change(b)
			seal(b)
			var before, after runtime.MemStats
			var got Record
			runtime.ReadMemStats(&before)
			err := ReadRecord(bytes.NewReader(b), small, &got)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, fault.StageRecordInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
				t.Errorf("%s: %d bytes were taken", name, took)
			}
		}
	}
}

func TestAppendRefusesWhatDoesNotFitTogether(t *testing.T) {
	for name, change := range map[string]func(r *Record){
		"no items":             func(r *Record) { r.Items = nil },
		"too many items":       func(r *Record) { r.Items = make([]Item, 1<<16) },
		"no kind":              func(r *Record) { r.Kind = 0 },
		"unknown kind":         func(r *Record) { r.Kind = 4 },
		"unknown mark":         func(r *Record) { r.Items[1].Marks |= 1 << 5 },
		"position below zero":  func(r *Record) { r.Items[1].Position = -1 },
		"count below zero":     func(r *Record) { r.Items[0].Count = -2 },
		"position overflows":   func(r *Record) { r.Items[2].Position = math.MaxInt32 },
		"extra opens nothing":  func(r *Record) { r.Items[1].Extra = []byte{1} },
		"logits of no answer":  func(r *Record) { r.Items[1].Marks = MarkLogits },
		"answer to no token":   func(r *Record) { r.Items[1].Marks = MarkAnswer },
		"a token too few":      func(r *Record) { r.Tokens = r.Tokens[1:] },
		"a token too many":     func(r *Record) { r.Tokens = append(r.Tokens, 1) },
		"rows beside tokens":   func(r *Record) { r.Rows = []float32{1} },
		"answer beside tokens": func(r *Record) { r.Answers = []Answer{{}} },
		"width of no rows":     func(r *Record) { r.Width = 2 },
		"rows of no width":     func(r *Record) { r.Kind, r.Tokens = KindRows, nil },
		"rows too wide":        func(r *Record) { r.Kind, r.Tokens, r.Width = KindRows, nil, math.MaxInt32 },
		"answers missing":      func(r *Record) { r.Kind, r.Tokens = KindAnswers, nil },
	} {
		r := samples()[0]
		r.Items = append([]Item(nil), r.Items...)
		change(r)
		dst := []byte("kept")
		got, err := r.Append(dst)
		if !errors.Is(err, fault.StageRecordInvalid) || string(got) != "kept" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "{what}") {
			t.Errorf("%s: it does not say what: %v", name, err)
		}
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	r := samples()[0]
	b, err := r.Append([]byte("kept"))
	if err != nil || string(b[:4]) != "kept" || !reflect.DeepEqual(b[4:], encoded(t, r)) {
		t.Errorf("%q, %v", b[:4], err)
	}
}

// The layout is a contract between builds: these bytes never change under
// version 1.
func TestTheBytesOfVersionOne(t *testing.T) {
	r := &Record{
		ID: 0x0102030405060708, Sequence: 9, Kind: KindRows, Width: 1,
		Items: []Item{{Slot: 2, Marks: MarkOpen, Generation: 3, Position: 4, Count: 1, Extra: []byte("{}")}}, Rows: []float32{1},
	}
	want := "MTRS\x01\x00\x40\x00" + "\x08\x07\x06\x05\x04\x03\x02\x01" + "\x09\x00\x00\x00\x00\x00\x00\x00" +
		"\x04\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00" + "\x01\x00\x00\x00" + "\x01\x00\x00\x00" + "\x02\x00\x00\x00" +
		"CRC." + strings.Repeat("\x00", 12) +
		"\x02\x00\x01\x00" + "\x03\x00\x00\x00" + "\x04\x00\x00\x00" + "\x01\x00\x00\x00" + "\x02\x00\x00\x00" + strings.Repeat("\x00", 12) +
		"{}" + "\x00\x00\x80\x3f"
	b := encoded(t, r)
	copy(b[48:], "CRC.")
	if string(b) != want {
		t.Errorf("got  %x\nwant %x", b, want)
	}
}
