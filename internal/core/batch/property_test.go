package batch

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// asker is a request as who asked sees it.
type asker struct {
	Request
	fed, tokens, taken int
	seated             bool // its first part went out
	over               bool
	ends               int    // end marks that went out
	cancelled          uint64 // records that had gone out then, counted from 1
}

// chain is an oracle: it follows every record and answers in order.
type chain struct {
	t       *rapid.T
	cfg     Config
	s       *Schedule
	askers  map[uint64]*asker
	order   []uint64 // as submitted and accepted
	flight  [][]Item
	slots   []slotSeen
	records uint64
	last    uint64
	alone   map[uint64][]int // counts of the parts of each request, in order
}

type slotSeen struct {
	request    uint64
	generation uint32
	open       bool
}

func drawConfig(t *rapid.T) Config {
	slots := rapid.IntRange(1, 5).Draw(t, "slots")
	return Config{
		Slots: slots, Share: rapid.IntRange(2, 24).Draw(t, "share"), Chunk: slots + rapid.IntRange(0, 6).Draw(t, "chunk"),
		Stages: rapid.IntRange(1, 4).Draw(t, "stages"), Queue: rapid.IntRange(0, 4).Draw(t, "queue"),
		Window: rapid.IntRange(1, 3).Draw(t, "window"), Alone: rapid.Bool().Draw(t, "alone"),
	}
}

func newChain(t *rapid.T) *chain {
	cfg := drawConfig(t)
	return &chain{
		t: t, cfg: cfg, s: New(cfg), askers: map[uint64]*asker{}, slots: make([]slotSeen, cfg.Slots), alone: map[uint64][]int{},
	}
}

func (c *chain) submit() {
	c.last++
	r := Request{
		ID: c.last, Prompt: rapid.IntRange(1, c.cfg.Share-1).Draw(c.t, "prompt"), Most: rapid.IntRange(0, 6).Draw(c.t, "most"),
	}
	room := c.cfg.Queue + c.s.open() - len(c.s.queue)
	if got, want := c.s.Submit(r), room > 0; got != want {
		c.t.Fatalf("accepted %v with room for %d", got, room)
	} else if got {
		c.askers[r.ID] = &asker{Request: r}
		c.order = append(c.order, r.ID)
	}
}

// someone is one who has not ended, nil where nobody is left.
func (c *chain) someone() *asker {
	ids := c.alive()
	if len(ids) == 0 {
		return nil
	}
	return c.askers[rapid.SampledFrom(ids).Draw(c.t, "who")]
}

func (c *chain) alive() []uint64 {
	return slices.DeleteFunc(slices.Clone(c.order), func(id uint64) bool { return c.askers[id].over })
}

func (c *chain) cancel() {
	if a := c.someone(); a != nil {
		a.over, a.cancelled = true, c.records+1
		c.s.Cancel(a.ID)
		c.s.Cancel(a.ID) // again changes nothing
	}
}

func (c *chain) take() {
	if a := c.someone(); a != nil && a.tokens > a.taken {
		n := rapid.IntRange(1, a.tokens-a.taken).Draw(c.t, "taken")
		a.taken += n
		c.s.Taken(a.ID, n)
	}
}

func (c *chain) next() bool {
	items := c.s.Next()
	if len(items) == 0 {
		return false
	}
	c.records++
	c.flight = append(c.flight, slices.Clone(items))
	if len(c.flight) > c.cfg.Stages+1 {
		c.t.Fatalf("%d records are under way", len(c.flight))
	}
	total, seen := 0, map[int]bool{}
	withTokens := 0
	for _, it := range items {
		if seen[it.Slot] {
			c.t.Fatalf("slot %d stands twice in %+v", it.Slot, items)
		}
		seen[it.Slot] = true
		total += it.Count
		if it.Count > 0 {
			withTokens++
		}
		c.item(it)
	}
	if total > c.cfg.Chunk || c.cfg.Alone && withTokens > 1 {
		c.t.Fatalf("%d tokens of %d slots in a record", total, withTokens)
	}
	return true
}

func (c *chain) item(it Item) {
	at, a := &c.slots[it.Slot], c.askers[it.Request]
	switch {
	case it.Open:
		if at.open || it.Generation != at.generation+1 || it.Position != 0 {
			c.t.Fatalf("slot %+v is opened by %+v", *at, it)
		}
		c.firstServed(a)
		*at = slotSeen{request: it.Request, generation: it.Generation, open: true}
		a.seated = true
	case !at.open || at.generation != it.Generation || at.request != it.Request:
		c.t.Fatalf("slot %+v is used by %+v", *at, it)
	}
	if it.Position != a.fed {
		c.t.Fatalf("%+v after %d tokens", it, a.fed)
	}
	a.fed += it.Count
	if a.fed > c.cfg.Share {
		c.t.Fatalf("slot %d has %d tokens", it.Slot, a.fed)
	}
	switch {
	case it.End:
		if a.ends++; !a.over || it.Count != 0 || a.ends > 1 {
			c.t.Fatalf("%+v ends %+v", it, a)
		}
		if a.cancelled > 0 && c.records > a.cancelled+1 {
			c.t.Fatalf("cancelled before record %d, ended in %d", a.cancelled, c.records)
		}
	case a.over:
		c.t.Fatalf("%+v is of one that has ended", it)
	case it.Drawn:
		if it.Count != 1 || !it.Answer || a.fed != a.Prompt+a.tokens || a.tokens-a.taken >= c.cfg.Window {
			c.t.Fatalf("%+v is decoded of %+v", it, a)
		}
	default:
		if it.Count < 1 || a.fed > a.Prompt || it.Answer != (a.fed == a.Prompt) {
			c.t.Fatalf("%+v is a part of %+v", it, a)
		}
		c.alone[a.ID] = append(c.alone[a.ID], it.Count)
	}
}

// firstServed holds a request that begins against those that came before it.
func (c *chain) firstServed(a *asker) {
	for _, id := range c.order {
		if before := c.askers[id]; id < a.ID && !before.over && !before.seated {
			c.t.Fatalf("request %d is served before %d", a.ID, id)
		}
	}
}

func (c *chain) answer() {
	if len(c.flight) == 0 {
		if out := c.s.Answered(nil); out != nil {
			c.t.Fatalf("nothing gave %v", out)
		}
		return
	}
	items := c.flight[0]
	c.flight = c.flight[1:]
	var stops []bool
	var asked []Item
	for _, it := range items {
		if it.Answer {
			stops = append(stops, rapid.IntRange(0, 9).Draw(c.t, "stop") == 0)
			asked = append(asked, it)
		}
		if it.End {
			c.slots[it.Slot].open = false
		}
	}
	out := c.s.Answered(stops)
	if len(out) != len(asked) {
		c.t.Fatalf("%d outcomes of %d answers", len(out), len(asked))
	}
	for i, o := range out {
		a := c.askers[asked[i].Request]
		if a.over {
			if o.Request != 0 {
				c.t.Fatalf("%+v of one that has ended", o)
			}
			continue
		}
		c.outcome(o, a, stops[i])
	}
}

func (c *chain) outcome(o Outcome, a *asker, stop bool) {
	want := Going
	if stop {
		want = Stop
	} else {
		a.tokens++
		if a.tokens == a.Most || a.Prompt+a.tokens > c.cfg.Share {
			want = Length
		}
	}
	if o.Request != a.ID || o.Finish != want {
		c.t.Fatalf("%+v where %d was to come to %d", o, a.ID, want)
	}
	a.over = want != Going
}

// settle serves all that is left, each taking its tokens at once, within as many
// rounds as there is work.
func (c *chain) settle() {
	work := 4
	for _, id := range c.alive() {
		a := c.askers[id]
		work += a.Prompt + c.cfg.Share + 4
	}
	for round := 0; len(c.alive()) > 0 || !c.s.Idle(); round++ {
		if round > work {
			c.t.Fatalf("%v are not served after %d rounds", c.alive(), round)
		}
		for c.next() {
		}
		if len(c.flight) == 0 && len(c.alive()) > 0 && !c.behind() {
			c.t.Fatalf("%v wait and nothing is under way", c.alive())
		}
		c.answer()
		for _, id := range c.alive() {
			if a := c.askers[id]; a.tokens > a.taken {
				c.s.Taken(id, a.tokens-a.taken)
				a.taken = a.tokens
			}
		}
	}
}

// behind reports whether somebody has tokens to take.
func (c *chain) behind() bool {
	return slices.ContainsFunc(c.alive(), func(id uint64) bool { return c.askers[id].tokens > c.askers[id].taken })
}

// Whatever is submitted, cancelled and taken when: every rule of the package
// comment holds in every record, and every request ends, once.
func TestScheduleHoldsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChain(t)
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				c.submit()
			case 2:
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					c.cancel()
				}
			case 3, 4:
				c.take()
			case 5, 6, 7:
				c.next()
			default:
				c.answer()
			}
		}
		c.settle()
		for _, it := range c.slots {
			if it.open {
				t.Fatalf("slot %+v was not ended", it)
			}
		}
		if c.cfg.Alone {
			c.fixed()
		}
	})
}

// fixed holds that the prompts were cut at the multiples of the chunk.
func (c *chain) fixed() {
	for id, parts := range c.alone {
		for i, n := range parts {
			whole := n == c.cfg.Chunk || i == len(parts)-1 && n == c.askers[id].Prompt-i*c.cfg.Chunk
			if !whole {
				c.t.Fatalf("the prompt of %d is cut into %v", id, parts)
			}
		}
	}
}

// Nobody is held up by the others: with all tokens taken at once, a token that
// can be decoded goes out at the latest in the record behind those that may be
// under way, and where slots take turns, behind a record of each other slot.
func TestNoDecodeIsHeldUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChain(t)
		waits := map[uint64]uint64{} // since which record a request could be decoded
		most := uint64(c.cfg.Stages + 2)
		if c.cfg.Alone {
			most = uint64(c.cfg.Slots)
		}
		for range 150 {
			for rapid.IntRange(0, 3).Draw(t, "more") == 0 {
				c.submit()
			}
			for c.next() {
				for _, it := range c.flight[len(c.flight)-1] {
					if since, waited := waits[it.Request]; waited && it.Drawn && c.records-since > most {
						t.Fatalf("request %d waited for %d records", it.Request, c.records-since)
					}
					delete(waits, it.Request)
				}
			}
			c.answer()
			for _, id := range c.alive() {
				if a := c.askers[id]; a.tokens > a.taken {
					c.s.Taken(id, a.tokens-a.taken)
					a.taken = a.tokens
					waits[id] = c.records
				}
			}
		}
	})
}
