package edge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"muster/internal/fault"
	"muster/internal/wire"
)

// both runs b through an Out and an In, whose source then ends, and hands over
// what became of each.
func both(t *testing.T, b []byte, f func(t *testing.T, s *side, err error)) {
	t.Helper()
	for _, s := range sides(t, 1<<24) {
		s.give(b)
		_ = s.feed.sender().CloseWrite() // a pump may have cancelled it by now
		f(t, s, result(t, s.ended))
	}
}

// refusals are bytes that may not pass, after one good record.
func refusals() map[string]struct {
	b    []byte
	want fault.Code
	what string
} {
	changed := func(change func(r *wire.Record)) []byte {
		r := rows(1, 2, 8)
		change(r)
		return encoded(r)
	}
	flipped := encoded(rows(1, 2, 8))
	flipped[70] ^= 1
	alien := encoded(rows(1, 2, 8))
	alien[0] ^= 1
	type c = struct {
		b    []byte
		want fault.Code
		what string
	}
	return map[string]c{
		"a gap":      {changed(func(r *wire.Record) { r.Sequence = 2 }), fault.EdgeSequenceBroken, ""},
		"a repeat":   {changed(func(r *wire.Record) { r.Sequence = 0 }), fault.EdgeSequenceBroken, ""},
		"another":    {encoded(&wire.Record{Sequence: 1, Kind: wire.KindTokens, Items: []wire.Item{{Count: 1}}, Tokens: []int32{1}}), fault.EdgeRecordRefused, "kind"},
		"too wide":   {encoded(rows(1, 1, limits.Width+1)), fault.EdgeRecordRefused, "width"},
		"too long":   {encoded(rows(1, limits.Tokens+1, 1)), fault.EdgeRecordRefused, "tokens"},
		"a bad bit":  {flipped, fault.EdgeRecordRefused, "crc"},
		"bad magic":  {alien, fault.EdgeRecordRefused, "begins"},
		"many items": {changed(func(r *wire.Record) { r.Items = append(r.Items, make([]wire.Item, limits.Items)...) }), fault.EdgeRecordRefused, "items"},
	}
}

func TestWhatMayNotPassIsRefused(t *testing.T) {
	good := encoded(rows(0, 3, 8))
	for name, c := range refusals() {
		both(t, append(bytes.Clone(good), c.b...), func(t *testing.T, s *side, err error) {
			f := wantFault(t, err, c.want)
			if !strings.Contains(f.Error(), c.what) || strings.Contains(f.Error()+f.Hint(), "{") {
				t.Errorf("%s, %s: it says %v; %s", name, s.name, f, f.Hint())
			}
			if s.code() != CodeFaulted {
				t.Errorf("%s, %s: the stream was cancelled with %d", name, s.name, s.code())
			}
			passed := s.sink.held()
			if s.name == "out" {
				passed -= preambleSize
			}
			if passed != len(good) || s.cfg.Meter.Read().Records != 1 {
				t.Errorf("%s, %s: %d bytes passed, good were %d", name, s.name, passed, len(good))
			}
		})
	}
}

func TestACutSourceIsAFaultWhereverItIsCut(t *testing.T) {
	records := stretch(2)
	for n := range records {
		if n == len(encoded(rows(0, 1, 1))) {
			continue // between the records: the next test's
		}
		if n > 300 && n < len(records)-300 {
			continue
		}
		both(t, records[:n], func(t *testing.T, s *side, err error) {
			switch {
			case n == 0 && s.name == "out":
				if err != nil {
					t.Errorf("a ring that ends at once gives %v", err)
				}
			case s.name == "out":
				wantFault(t, err, fault.EdgeRecordRefused)
			default:
				if f := wantFault(t, err, fault.EdgeStreamEnded); !errors.Is(f, io.ErrUnexpectedEOF) && n > 0 {
					t.Errorf("cut after %d bytes: %v", n, f)
				}
			}
		})
	}
}

func TestEndMarkTellsTheEndFromACut(t *testing.T) {
	records := stretch(3)
	mark := endMark(3)
	version2 := bytes.Clone(mark)
	version2[4]++
	for name, c := range map[string]struct {
		tail []byte
		want fault.Code
	}{
		"the mark":              {mark, ""},
		"none":                  {nil, fault.EdgeStreamEnded},
		"half of it":            {mark[:9], fault.EdgeStreamEnded},
		"of fewer records":      {endMark(2), fault.EdgeEndBroken},
		"of more records":       {endMark(4), fault.EdgeEndBroken},
		"of another version":    {version2, fault.EdgeEndBroken},
		"and a byte":            {append(bytes.Clone(mark), 0), fault.EdgeEndBroken},
		"and another record":    {append(bytes.Clone(mark), encoded(rows(3, 1, 1))...), fault.EdgeEndBroken},
		"twice":                 {append(bytes.Clone(mark), mark...), fault.EdgeEndBroken},
		"with nothing but half": {records[:20], fault.EdgeStreamEnded},
	} {
		both(t, append(bytes.Clone(records), c.tail...), func(t *testing.T, s *side, err error) {
			switch {
			case s.name == "out": // a ring has no marks
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want != "":
				if f := wantFault(t, err, c.want); strings.Contains(f.Error(), "{") {
					t.Errorf("%s: it says %v", name, f)
				}
			}
		})
	}
}

// greedy gives its last bytes together with its end, as a Reader may.
type greedy struct {
	linkReceiver
	r io.Reader
}

func (g greedy) Read(b []byte) (int, error) { return g.r.Read(b) }

func TestTheLastBytesMayComeWithTheEnd(t *testing.T) {
	b := append(stretch(3), endMark(3)...)
	to := newRing(1 << 20)
	from := greedy{newLink(1).receiver(), iotest.DataErrReader(bytes.NewReader(b))}
	if err := In(t.Context(), newConfig(), from, to); err != nil || !bytes.Equal(to.l.buf, stretch(3)) {
		t.Errorf("%d bytes passed, %v", len(to.l.buf), err)
	}
}

func TestARingsFaultComesThrough(t *testing.T) {
	closed := fault.New(fault.ArenaRingClosed, "arena", "ring", 3)
	for _, s := range sides(t, 1<<20) {
		s.give(stretch(1))
		if s.name == "out" {
			eventually(t, "the first record passed", func() bool { return s.cfg.Meter.Read().Records == 1 })
			s.feed.fail(closed)
		} else {
			s.sink.fail(closed)
		}
		if err := result(t, s.ended); !errors.Is(err, closed) {
			t.Errorf("%s: %v", s.name, err)
		}
		if s.code() != CodeFaulted {
			t.Errorf("%s: the stream was cancelled with %d", s.name, s.code())
		}
	}
}

// A head of the size that limits allow is held, and not more.
func TestALargeHeadIsJudgedWhole(t *testing.T) {
	r := rows(0, 1, 1)
	r.Items[0].Marks, r.Items[0].Extra = wire.MarkOpen, make([]byte, 1<<20)
	r.Items = append(r.Items, wire.Item{Position: 3})
	for _, s := range sides(t, 1<<22) {
		s.give(encoded(r))
		wantFault(t, result(t, s.ended), fault.EdgeRecordRefused)
	}
	wideLimits := limits
	wideLimits.Extra = 1 << 20
	cfg := newConfig()
	cfg.Limits = wideLimits
	from, to := newLink(1<<22), newRing(1<<22)
	sent := append(encoded(r), endMark(1)...)
	ended := after(func() error { return In(t.Context(), cfg, from.receiver(), to) })
	_, _ = from.sender().Write(sent)
	_ = from.sender().CloseWrite()
	if err := result(t, ended); err != nil || !bytes.Equal(to.l.buf, encoded(r)) {
		t.Errorf("%d bytes of %d passed, %v", len(to.l.buf), len(sent), err)
	}
}

// FuzzIn feeds a stream of arbitrary bytes: what passes is a sequence of sound
// records, and a part of one more at most.
func FuzzIn(f *testing.F) {
	f.Add(append(stretch(3), endMark(3)...), false)
	f.Add(encoded(rows(0, 2, 8)), true)
	for _, c := range refusals() {
		f.Add(append(encoded(rows(0, 3, 8)), c.b...), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, small bool) {
		window := 1 << 24
		if small {
			window = 7
		}
		from, to := newLink(window), newRing(1<<24)
		ended := after(func() error { return In(t.Context(), newConfig(), from.receiver(), to) })
		_, writeErr := from.sender().Write(b)
		_ = from.sender().CloseWrite()
		err := result(t, ended)
		if err == nil && writeErr != nil {
			t.Fatalf("a clean end before the last byte")
		}
		in := bytes.NewReader(to.l.buf)
		for want := uint64(0); ; want++ {
			var r wire.Record
			readErr := wire.ReadRecord(in, limits, &r)
			if errors.Is(readErr, io.EOF) {
				break
			}
			if readErr != nil && (err == nil || !errors.Is(readErr, io.ErrUnexpectedEOF)) {
				t.Fatalf("what passed: %v; the verdict: %v", readErr, err)
			}
			if readErr != nil {
				break
			}
			if r.Sequence != want || r.Kind != wire.KindRows {
				t.Fatalf("record %d of kind %d passed as number %d", r.Sequence, r.Kind, want)
			}
		}
		if err == nil {
			n := to.committed
			if said := binary.LittleEndian.Uint64(b[len(b)-8:]); said != uint64(n) {
				t.Fatalf("%d records passed, %d were said", n, said)
			}
			return
		}
		if f := fault.From(err); !strings.HasPrefix(string(f.Code), "edge.") || strings.Contains(f.Error(), "{") {
			t.Fatalf("the fault is %v", f)
		}
	})
}

func FuzzPreamble(f *testing.F) {
	f.Add(newConfig().preamble().Append(nil))
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLink(1 << 20)
		_, _ = l.sender().Write(b)
		_ = l.sender().CloseWrite()
		p, err := ReadPreamble(l.receiver(), patience)
		if err != nil {
			wantFault(t, err, fault.EdgePreambleInvalid)
			return
		}
		if !bytes.Equal(p.Append(nil), b[:preambleSize]) || l.held() != len(b)-preambleSize {
			t.Fatalf("%x was read as %+v", b, p)
		}
	})
}
