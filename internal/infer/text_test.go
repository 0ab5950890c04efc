package infer

import (
	"slices"
	"testing"
)

func TestTextHoldsBackPartsOfCharacters(t *testing.T) {
	euro := []byte("€")
	text := NewText([][]byte{[]byte("a"), euro[:1], euro[1:], {0xff}})
	var got []string
	for _, id := range []int32{0, 1, 2, 1, 0, 3, 99, -1} {
		got = append(got, text.Add(id))
	}
	want := []string{"a", "", "€", "", "\uFFFDa", "\uFFFD", "", ""}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	text.Add(1)
	if end := text.End(); end != "\uFFFD" {
		t.Errorf("the unfinished end is %q", end)
	}
	if end := text.End(); end != "" {
		t.Errorf("ended twice with %q", end)
	}
}
