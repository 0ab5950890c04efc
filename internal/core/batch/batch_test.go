package batch

import (
	"fmt"
	"strings"
	"testing"
)

// shown is a record on one line: slot, request, what of it, and its marks.
func shown(items []Item) string {
	var words []string
	for _, it := range items {
		what := fmt.Sprintf("%d:%d", it.Position, it.Position+it.Count)
		if it.Drawn {
			what = fmt.Sprintf("decode %d", it.Position)
		}
		if it.End {
			what = "end"
		}
		words = append(words, fmt.Sprintf("slot %d request %d %s", it.Slot, it.Request, what))
	}
	return strings.Join(words, ", ")
}

func (s *Schedule) tell(t *testing.T, want string) {
	t.Helper()
	if got := shown(s.Next()); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func config() Config {
	return Config{Slots: 2, Share: 16, Chunk: 4, Stages: 1, Queue: 1, Window: 8}
}

// A prompt goes in chunks that do not wait for one another; a second request
// comes in between decodes, and none of them stalls.
func TestPrefillGoesBetweenDecodes(t *testing.T) {
	s := New(config())
	s.Submit(Request{ID: 1, Prompt: 5, Most: 3})
	s.tell(t, "slot 0 request 1 0:4")
	s.tell(t, "slot 0 request 1 4:5")
	s.tell(t, "") // two records are under way
	s.Submit(Request{ID: 2, Prompt: 7})
	s.Answered(nil)
	s.tell(t, "slot 1 request 2 0:4")
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 5, slot 1 request 2 4:7")
	s.Answered(nil)
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 6, slot 1 request 2 decode 7")
	out := s.Answered(nil)
	if len(out) != 2 || out[0] != (Outcome{Request: 1, Finish: Length}) || out[1] != (Outcome{Request: 2}) {
		t.Errorf("outcomes %+v", out)
	}
	s.tell(t, "slot 0 request 1 end, slot 1 request 2 decode 8")
}

// With two stages the slots that decode make two groups.
func TestTwoGroupsAreUnderWayAtOnce(t *testing.T) {
	cfg := config()
	cfg.Slots, cfg.Chunk, cfg.Stages = 4, 8, 2
	s := New(cfg)
	for id := range uint64(4) {
		s.Submit(Request{ID: id + 1, Prompt: 2})
	}
	s.tell(t, "slot 0 request 1 0:2, slot 1 request 2 0:2, slot 2 request 3 0:2, slot 3 request 4 0:2")
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 2, slot 1 request 2 decode 2")
	s.tell(t, "slot 2 request 3 decode 2, slot 3 request 4 decode 2")
	s.tell(t, "")
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 3, slot 1 request 2 decode 3")
}

// Alone, each record is of one slot, and the slots take turns.
func TestAloneTheSlotsTakeTurns(t *testing.T) {
	cfg := config()
	cfg.Alone = true
	s := New(cfg)
	s.Submit(Request{ID: 1, Prompt: 2})
	s.Submit(Request{ID: 2, Prompt: 6})
	s.tell(t, "slot 0 request 1 0:2")
	s.tell(t, "slot 1 request 2 0:4")
	s.Answered(nil)
	s.tell(t, "slot 1 request 2 4:6")
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 2")
	s.Cancel(1)
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 end, slot 1 request 2 decode 6")
}

func TestAFullQueueRefuses(t *testing.T) {
	s := New(config())
	for id := range uint64(3) {
		if !s.Submit(Request{ID: id + 1, Prompt: 1}) {
			t.Fatalf("request %d was refused", id+1)
		}
	}
	if s.Submit(Request{ID: 4, Prompt: 1}) {
		t.Error("two slots and a queue of one took four")
	}
	s.Cancel(2)
	if !s.Submit(Request{ID: 5, Prompt: 1}) {
		t.Error("the place of one that was cancelled is not free")
	}
}

// A request that was given a slot and never came to it leaves nothing to end.
func TestWhoNeverBeganNeedsNoEnd(t *testing.T) {
	cfg := config()
	cfg.Chunk = 2
	s := New(cfg)
	s.Submit(Request{ID: 1, Prompt: 4})
	s.Submit(Request{ID: 2, Prompt: 4})
	s.tell(t, "slot 0 request 1 0:2") // the second has a slot, and no room in the record
	s.Cancel(2)
	s.Submit(Request{ID: 3, Prompt: 1})
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 2:4")
	s.tell(t, "slot 1 request 3 0:1")
	if it := s.flight[1][0]; it.Generation != 1 {
		t.Errorf("its generation is %d", it.Generation)
	}
}

// Who takes nothing is decoded as far as the window, and goes on once it takes.
func TestWhoTakesNothingIsNotDecodedOn(t *testing.T) {
	cfg := config()
	cfg.Window = 2
	s := New(cfg)
	s.Submit(Request{ID: 1, Prompt: 1})
	s.tell(t, "slot 0 request 1 0:1")
	s.Answered(nil)
	s.tell(t, "slot 0 request 1 decode 1")
	s.Answered(nil)
	s.tell(t, "")
	s.Taken(1, 1)
	s.tell(t, "slot 0 request 1 decode 2")
}
