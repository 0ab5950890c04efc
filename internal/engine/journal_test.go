package engine

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestJournalMakesLines(t *testing.T) {
	var got []string
	j := &journal{sink: func(level int, line string) { got = append(got, fmt.Sprintf("%d %s", level, line)) }}
	for _, p := range []struct {
		level int
		text  string
	}{
		{2, "one\ntwo"},
		{5, " goes on\n"},
		{1, "......."},
		{5, "...\n"}, // progress dots
		{4, "an error without an end"},
		{3, "a warning\n\n"},
		{2, strings.Repeat("x", longestLine+100) + "\n"},
	} {
		j.add(p.level, p.text)
	}
	want := []string{
		"2 one", "2 two goes on", "4 an error without an end", "3 a warning", "2 " + strings.Repeat("x", longestLine),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	if said := j.said(); said != "an error without an end; a warning" {
		t.Errorf("said %q", said)
	}
	j.forget()
	if said := j.said(); said != "(none)" {
		t.Errorf("said %q after forget", said)
	}
}

func TestJournalKeepsTheLastWords(t *testing.T) {
	j := &journal{}
	for i := range 5 * wordsKept {
		j.add(4, fmt.Sprintf("error %d\n", i))
	}
	words := strings.Split(j.said(), "; ")
	if len(words) != wordsKept || words[wordsKept-1] != fmt.Sprintf("error %d", 5*wordsKept-1) {
		t.Errorf("%d words, the last %q", len(words), words[len(words)-1])
	}
}
