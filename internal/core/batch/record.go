package batch

import (
	"cmp"
	"slices"
)

// Next is the next record's items, which count as sent; nil where nothing can
// go out before something has been answered, submitted or taken.
func (s *Schedule) Next() []Item {
	if len(s.flight) >= s.cfg.flight() {
		return nil
	}
	s.seat()
	items := s.ends()
	if s.cfg.Alone {
		items = s.turn(items)
	} else {
		items = s.prefill(s.decodes(items))
	}
	if len(items) > 0 {
		s.flight = append(s.flight, items)
	}
	return items
}

// seat gives free slots to those who wait.
func (s *Schedule) seat() {
	for i := range s.seats {
		at := &s.seats[i]
		if at.phase != free || len(s.queue) == 0 {
			continue
		}
		*at = seat{phase: prefilling, generation: at.generation, request: s.queue[0]}
		s.ready(at)
		s.queue = slices.Delete(s.queue, 0, 1)
	}
}

// ends marks the slots that end.
func (s *Schedule) ends() []Item {
	var items []Item
	for i := range s.seats {
		if at := &s.seats[i]; at.phase == ending && !at.ended {
			at.ended = true
			items = append(items, Item{
				Request: at.request.ID, Slot: i, Generation: at.generation, Position: at.next, End: true,
			})
		}
	}
	return items
}

// decodes adds a token of every slot of one group.
func (s *Schedule) decodes(items []Item) []Item {
	if s.decoding() >= s.cfg.Stages {
		return items
	}
	all := 0
	for i := range s.seats {
		if s.seats[i].phase == decoding {
			all++
		}
	}
	share := min((all+s.cfg.Stages-1)/s.cfg.Stages, s.cfg.Chunk)
	for _, i := range s.inOrder(func(t *seat) bool { return t.feedable(s.cfg.Window) }) {
		if share == 0 {
			break
		}
		share--
		items = append(items, s.decode(i))
	}
	return items
}

// decoding is the number of records under way that have decodes.
func (s *Schedule) decoding() int {
	n := 0
	for _, items := range s.flight {
		if slices.ContainsFunc(items, func(it Item) bool { return it.Drawn }) {
			n++
		}
	}
	return n
}

// prefill adds parts of prompts, in the room that is left.
func (s *Schedule) prefill(items []Item) []Item {
	room := s.cfg.Chunk
	for _, it := range items {
		room -= it.Count
	}
	for _, i := range s.inOrder(func(t *seat) bool { return t.phase == prefilling }) {
		if room == 0 {
			break
		}
		it := s.part(i, room)
		room -= it.Count
		items = append(items, it)
	}
	return items
}

// turn adds the tokens of the one slot that has been ready for longest.
func (s *Schedule) turn(items []Item) []Item {
	order := s.inOrder(func(t *seat) bool { return t.phase == prefilling || t.feedable(s.cfg.Window) })
	if len(order) == 0 {
		return items
	}
	i := order[0]
	if s.seats[i].phase == decoding {
		return append(items, s.decode(i))
	}
	it := s.part(i, s.cfg.Chunk)
	s.ready(&s.seats[i]) // the rest of the prompt is behind the others
	return append(items, it)
}

// inOrder is the places of the seats that are of a kind, the one that was ready
// first before the others.
func (s *Schedule) inOrder(of func(*seat) bool) []int {
	var places []int
	for i := range s.seats {
		if of(&s.seats[i]) {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(s.seats[a].since, s.seats[b].since) })
	return places
}

// decode feeds the token that was last drawn for a slot.
func (s *Schedule) decode(i int) Item {
	at := &s.seats[i]
	it := Item{Request: at.request.ID, Slot: i, Generation: at.generation, Position: at.next, Count: 1, Answer: true, Drawn: true}
	at.next++
	at.asked = true
	return it
}

// part feeds up to room tokens of a slot's prompt.
func (s *Schedule) part(i, room int) Item {
	at := &s.seats[i]
	it := Item{Request: at.request.ID, Slot: i, Position: at.next, Open: !at.opened, Count: min(room, at.request.Prompt-at.next)}
	if !at.opened {
		at.opened = true
		at.generation++
	}
	it.Generation = at.generation
	at.next += it.Count
	if at.next == at.request.Prompt {
		at.phase, at.asked, it.Answer = decoding, true, true
	}
	return it
}

// Answered takes the answer to the oldest record under way. Of each of its
// items with Answer, in their order, stops says whether the model ended the
// request by it; what is missing counts as false. The outcomes are in the same
// order. Without a record under way nothing changes.
func (s *Schedule) Answered(stops []bool) []Outcome {
	if len(s.flight) == 0 {
		return nil
	}
	items := s.flight[0]
	s.flight = slices.Delete(s.flight, 0, 1)
	var out []Outcome
	for _, it := range items {
		at := &s.seats[it.Slot]
		switch {
		case it.End:
			*at = seat{generation: at.generation}
		case it.Answer:
			n := len(out)
			out = append(out, s.answer(at, it, n < len(stops) && stops[n]))
		}
	}
	return out
}

// answer takes the next token of a slot. No slot is opened again while an
// answer to it is under way, so the item is of this generation.
func (s *Schedule) answer(at *seat, it Item, stop bool) Outcome {
	at.asked = false
	if at.phase != decoding {
		return Outcome{}
	}
	o := Outcome{Request: it.Request}
	switch {
	case stop:
		o.Finish = Stop
	default:
		at.tokens++
		at.untaken++
		if at.tokens == at.request.Most || at.next >= s.cfg.Share {
			o.Finish = Length
		}
	}
	if o.Finish != Going {
		at.end()
	} else if at.feedable(s.cfg.Window) {
		s.ready(at)
	}
	return o
}
