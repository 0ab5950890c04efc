package infer_test

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/wire"
)

func TestTextsThatCannotBePromptsAreRefused(t *testing.T) {
	w := infer.NewWords(&wire.Vocab{Pieces: [][]byte{[]byte("a"), []byte("abc")}, EOG: []int32{1}})
	for text, want := range map[string]fault.Code{
		"":                         "",
		"straße":                   "",
		strings.Repeat("abc", 4):   "",
		strings.Repeat("abc", 5):   fault.RequestPromptTooLong,
		"\x80":                     fault.RequestPromptInvalid,
		strings.Repeat("\xff", 99): fault.RequestPromptInvalid,
	} {
		err := w.Check(text, 4)
		if (want == "") != (err == nil) || want != "" && !errors.Is(err, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if w.Ends(0) || !w.Ends(1) {
		t.Error("not the ids that end")
	}
}
