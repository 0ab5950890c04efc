package batch

// Config bounds a Schedule.
type Config struct {
	Slots  int  // of the recipe; at least 1
	Share  int  // tokens that a slot holds, of prompt and answer; at least 2
	Chunk  int  // tokens of a record; at least Slots
	Stages int  // of the chain; at least 1
	Queue  int  // requests that wait while no slot is free
	Window int  // tokens of a request that were answered and not yet taken; at least 1
	Alone  bool // a record computes tokens of one slot only
}

// flight is how many records may be under way: one in each stage, and one that
// the first stage finds when it is done.
func (c Config) flight() int { return c.Stages + 1 }

// Request asks for a slot.
type Request struct {
	ID     uint64 // not 0; of nobody else who has not ended
	Prompt int    // tokens; at least 1 and less than Config.Share
	Most   int    // tokens generated; 0: until the slot is full
}

// Item is what a record holds for one slot. An item without tokens ends its
// slot.
type Item struct {
	Request    uint64
	Slot       int
	Generation uint32 // of the slot, from 1, rising by 1 at each Open
	Position   int    // of the first token, from 0: the prompt's come first
	Count      int    // tokens
	Drawn      bool   // the token is the one last drawn, none of the prompt's
	Open       bool   // the slot begins
	End        bool   // the slot ends
	Answer     bool   // the last token's answer is the request's next token
}

// Finish says why a request needs no further token.
type Finish uint8

// The finishes.
const (
	Going  Finish = iota // it does need one
	Stop                 // the model ended it, by a token that is not part of the answer
	Length               // its own limit or the slot's did
)

// Outcome is what became of one answer.
type Outcome struct {
	Request uint64 // 0: it was cancelled meanwhile
	Finish  Finish
}

type phase uint8

const (
	free phase = iota
	prefilling
	decoding
	ending
)

// seat is one slot.
type seat struct {
	phase      phase
	generation uint32
	request    Request
	opened     bool   // in this generation
	next       int    // position of the next token that goes out
	tokens     int    // generated
	untaken    int    // of them
	asked      bool   // an answer is under way
	ended      bool   // the end mark is under way
	since      uint64 // when it became ready, by the Schedule's count
}

// Schedule is the state: slots, queue, records under way. The zero value is of
// no use; see New.
type Schedule struct {
	cfg    Config
	seats  []seat
	queue  []Request
	flight [][]Item // records under way, oldest first
	count  uint64   // rises whenever a seat becomes ready
}

// New has all slots free and nobody waiting.
func New(cfg Config) *Schedule {
	return &Schedule{cfg: cfg, seats: make([]seat, cfg.Slots)}
}

// Submit takes a request up; false where the queue is full.
func (s *Schedule) Submit(r Request) bool {
	if len(s.queue) >= s.cfg.Queue+s.open() {
		return false
	}
	s.queue = append(s.queue, r)
	return true
}

// open is the number of free slots.
func (s *Schedule) open() int {
	n := 0
	for i := range s.seats {
		if s.seats[i].phase == free {
			n++
		}
	}
	return n
}

// Waiting is the number of requests for which no slot is free.
func (s *Schedule) Waiting() int { return max(0, len(s.queue)-s.open()) }

// Idle reports whether all slots are free and nobody waits.
func (s *Schedule) Idle() bool { return len(s.queue) == 0 && s.open() == len(s.seats) }

// Cancel gives a request up. One that has ended, or is unknown, changes
// nothing.
func (s *Schedule) Cancel(id uint64) {
	for i, r := range s.queue {
		if r.ID == id {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return
		}
	}
	if at := s.find(id); at != nil {
		at.end()
	}
}

// find is the seat of a request that needs tokens, nil where it has none.
func (s *Schedule) find(id uint64) *seat {
	for i := range s.seats {
		if at := &s.seats[i]; at.request.ID == id && (at.phase == prefilling || at.phase == decoding) {
			return at
		}
	}
	return nil
}

// end has the seat's end mark sent, where the stages know of it at all.
func (t *seat) end() {
	t.phase = ending
	if !t.opened {
		t.phase = free
	}
}

// Taken says that who asked has taken so many further tokens.
func (s *Schedule) Taken(id uint64, tokens int) {
	at := s.find(id)
	if at == nil {
		return
	}
	held := at.untaken >= s.cfg.Window
	at.untaken = max(0, at.untaken-tokens)
	if held && at.feedable(s.cfg.Window) {
		s.ready(at)
	}
}

// ready puts a seat behind all that became ready before it.
func (s *Schedule) ready(t *seat) {
	s.count++
	t.since = s.count
}

// feedable reports whether the seat has a token to decode.
func (t *seat) feedable(window int) bool {
	return t.phase == decoding && !t.asked && t.untaken < window
}
