package wire

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"testing"
)

var wide = Limits{Items: 1 << 10, Tokens: 1 << 12, Width: 1 << 10, Extra: 1 << 16, Top: 64, Vocabulary: 1 << 12}

// samples has one record of each kind with every mark and an item of no token.
func samples() []*Record {
	items := []Item{
		{Slot: 3, Marks: MarkOpen | MarkAnswer, Generation: 9, Position: 0, Count: 2, Extra: []byte(`{"prompt":[1,2]}`)},
		{Slot: 4, Marks: MarkEnd, Generation: math.MaxUint32},
		{Slot: math.MaxUint16, Marks: MarkTrim | MarkAnswer | MarkLogits, Position: 70, Count: 1},
	}
	return []*Record{
		{ID: 1, Sequence: 0, Kind: KindTokens, Items: items, Tokens: []int32{1, -2, math.MaxInt32}},
		{
			ID: math.MaxUint64, Sequence: 7, Kind: KindRows, Items: items, Width: 2,
			Rows: []float32{1, -2.5, float32(math.Inf(1)), 0, math.SmallestNonzeroFloat32, 6},
		},
		{ID: 2, Sequence: math.MaxUint64, Kind: KindAnswers, Items: items, Answers: []Answer{
			{Token: 5, Logprob: -0.25, Top: []TokenLogprob{{5, -0.25}, {-1, -3}}},
			{Token: 6, Logprob: -1, Logits: []float32{1, 2, 3}},
		}},
	}
}

func encoded(t testing.TB, r *Record) []byte {
	t.Helper()
	b, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// public is what a user sees of a record, with empty slices alike.
func public(r *Record) Record {
	c := Record{ID: r.ID, Sequence: r.Sequence, Kind: r.Kind, Width: r.Width}
	c.Tokens = append(c.Tokens, r.Tokens...)
	c.Rows = append(c.Rows, r.Rows...)
	for _, it := range r.Items {
		it.Extra = append([]byte(nil), it.Extra...)
		c.Items = append(c.Items, it)
	}
	for _, a := range r.Answers {
		c.Answers = append(c.Answers, Answer{
			Token: a.Token, Logprob: a.Logprob,
			Top: append([]TokenLogprob(nil), a.Top...), Logits: append([]float32(nil), a.Logits...),
		})
	}
	return c
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	var stream []byte
	for _, r := range samples() {
		stream = append(stream, encoded(t, r)...)
	}
	from := bytes.NewReader(stream)
	var got Record // one for all: what an earlier record left must not show
	for _, want := range samples() {
		if err := ReadRecord(from, wide, &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(public(&got), public(want)) {
			t.Errorf("kind %d: got %+v, want %+v", want.Kind, public(&got), public(want))
		}
	}
	if err := ReadRecord(from, wide, &got); err != io.EOF {
		t.Errorf("after the last record: %v, want io.EOF itself", err)
	}
}
