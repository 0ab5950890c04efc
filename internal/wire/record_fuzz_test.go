package wire

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// FuzzReadRecord reads arbitrary bytes, as they are and with the crc made
// right. Whatever is accepted must be encoded as the same bytes again.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte{})
	for _, r := range samples() {
		b := encoded(f, r)
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(b[:headLength(r)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		exactly(t, b)
		sealed := bytes.Clone(b)
		seal(sealed)
		exactly(t, sealed)
	})
}

// drawRecord draws a sound record.
func drawRecord(t *rapid.T) *Record {
	r := &Record{
		ID:       rapid.Uint64().Draw(t, "id"),
		Sequence: rapid.Uint64().Draw(t, "sequence"),
		Kind:     rapid.SampledFrom([]Kind{KindTokens, KindRows, KindAnswers}).Draw(t, "kind"),
	}
	for range rapid.IntRange(1, 6).Draw(t, "items") {
		r.Items = append(r.Items, drawItem(t, r.Kind))
	}
	switch r.Kind {
	case KindTokens:
		r.Tokens = rapid.SliceOfN(rapid.Int32(), r.TokenCount(), r.TokenCount()).Draw(t, "tokens")
	case KindRows:
		r.Width = rapid.IntRange(1, 9).Draw(t, "width")
		r.Rows = drawFloats(t, r.TokenCount()*r.Width)
	case KindAnswers:
		_, answers := countsOf(r.Items)
		for range answers {
			r.Answers = append(r.Answers, drawAnswer(t))
		}
	}
	return r
}

func drawItem(t *rapid.T, kind Kind) Item {
	it := Item{
		Slot:       rapid.Uint16().Draw(t, "slot"),
		Marks:      Mark(rapid.Uint16Range(0, uint16(marksKnown)).Draw(t, "marks")),
		Generation: rapid.Uint32().Draw(t, "generation"),
		Position:   rapid.Int32Range(0, math.MaxInt32-5).Draw(t, "position"),
		Count:      rapid.IntRange(0, 5).Draw(t, "count"),
	}
	if it.Count == 0 && kind != KindAnswers {
		it.Marks &^= MarkAnswer
	}
	if it.Marks&MarkAnswer == 0 {
		it.Marks &^= MarkLogits
	}
	if it.Marks&MarkOpen != 0 {
		it.Extra = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "extra")
	}
	return it
}

func drawAnswer(t *rapid.T) Answer {
	a := Answer{Token: rapid.Int32().Draw(t, "token"), Logprob: rapid.Float32().Draw(t, "logprob")}
	for range rapid.IntRange(0, 4).Draw(t, "tops") {
		a.Top = append(a.Top, TokenLogprob{rapid.Int32().Draw(t, "top"), rapid.Float32().Draw(t, "logprob")})
	}
	a.Logits = drawFloats(t, rapid.IntRange(0, 9).Draw(t, "logits"))
	return a
}

// drawFloats draws bit patterns, so that NaNs and denormals come too.
func drawFloats(t *rapid.T, n int) []float32 {
	var f []float32
	for _, bits := range rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "floats") {
		f = append(f, math.Float32frombits(bits))
	}
	return f
}

// bits replaces floats, whose NaNs equal nothing, by their patterns.
func bits(r *Record) ([]uint32, Record) {
	c := public(r)
	var all []uint32
	take := func(fs []float32) {
		for i, f := range fs {
			all = append(all, math.Float32bits(f))
			fs[i] = 0
		}
	}
	take(c.Rows)
	for i := range c.Answers {
		take(c.Answers[i].Logits)
	}
	return all, c
}

func roundTrips(t *rapid.T) {
	var got Record
	var stream []byte
	records := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 4).Draw(t, "records")
	for _, r := range records {
		var err error
		if stream, err = r.Append(stream); err != nil {
			t.Fatal(err)
		}
	}
	from := bytes.NewReader(stream)
	for _, want := range records {
		if err := ReadRecord(from, wide, &got); err != nil {
			t.Fatal(err)
		}
		gotBits, gotRest := bits(&got)
		wantBits, wantRest := bits(want)
		if !reflect.DeepEqual(gotBits, wantBits) || !reflect.DeepEqual(gotRest, wantRest) {
			t.Fatalf("got %+v, want %+v", gotRest, wantRest)
		}
	}
}

func TestEverySoundRecordComesBack(t *testing.T) { rapid.Check(t, roundTrips) }

// FuzzRecordRoundTrip is the same, led by coverage.
func FuzzRecordRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(roundTrips)) }

func TestWordsAreTurnedRound(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	reverseWords(b)
	if want := []byte{4, 3, 2, 1, 8, 7, 6, 5}; !bytes.Equal(b, want) {
		t.Errorf("got %v, want %v", b, want)
	}
	if got := appendWords(nil, []int32{1}); !bytes.Equal(got, []byte{1, 0, 0, 0}) {
		t.Errorf("1 is written as %v", got)
	}
}
