package infer

import (
	"slices"
	"time"

	"muster/internal/core/batch"
	"muster/internal/fault"
	"muster/internal/wire"
)

// letter is what the loop is told by others.
type letter interface{ open(l *loop) }

type (
	submit struct {
		a     *asked
		taken chan<- error // has room for one
	}
	cancel struct{ a *asked }
	took   struct {
		a      *asked
		tokens int
	}
	drain struct{ idle chan struct{} }
)

// loop owns the schedule. It sends what is due and hands out what came; one
// goroutine does both, so that records go out in the order of the schedule.
type loop struct {
	s        *Server
	schedule *batch.Schedule
	asked    map[uint64]*asked // by id; those that have not ended
	flight   [][]batch.Item    // records under way, oldest first
	last     uint64            // id given
	sent     uint64            // records
	draining bool
	idle     []chan struct{} // closed when nothing is left to do
}

func newLoop(s *Server) *loop {
	return &loop{s: s, schedule: batch.New(s.cfg.schedule()), asked: map[uint64]*asked{}}
}

// run ends with the server.
func (l *loop) run() {
	for {
		if err := l.send(); err != nil {
			l.s.end(err)
			return
		}
		l.rest()
		select {
		case r := <-l.s.came:
			if err := l.take(r); err != nil {
				l.s.end(err)
				return
			}
		case m := <-l.s.mail:
			m.open(l)
			l.read()
		case <-l.s.over.Done():
			return
		}
	}
}

// read opens what else has come, so that requests which came together go into
// one record.
func (l *loop) read() {
	for range cap(l.s.mail) {
		select {
		case m := <-l.s.mail:
			m.open(l)
		default:
			return
		}
	}
}

// rest tells those who drain that nothing is left.
func (l *loop) rest() {
	if !l.schedule.Idle() {
		return
	}
	for _, idle := range l.idle {
		close(idle)
	}
	l.idle = nil
}

func (m submit) open(l *loop) {
	if l.draining {
		m.taken <- fault.New(fault.RequestServiceStopped, "")
		return
	}
	l.last++
	m.a.id = l.last
	if !l.schedule.Submit(batch.Request{ID: m.a.id, Prompt: len(m.a.Prompt), Most: m.a.MaxTokens}) {
		m.taken <- fault.New(fault.RequestQueueFull, "", "slots", l.s.cfg.Recipe.Slots, "waiting", l.schedule.Waiting())
		return
	}
	l.asked[m.a.id] = m.a
	m.taken <- nil
}

func (m cancel) open(l *loop) {
	l.schedule.Cancel(m.a.id)
	delete(l.asked, m.a.id)
}

func (m took) open(l *loop) { l.schedule.Taken(m.a.id, m.tokens) }

func (m drain) open(l *loop) {
	l.draining = true
	l.idle = append(l.idle, m.idle)
}

// send sends all records that are due.
func (l *loop) send() error {
	for {
		items := l.schedule.Next()
		if len(items) == 0 {
			return nil
		}
		r := &wire.Record{ID: l.sent + 1, Sequence: l.sent, Kind: wire.KindTokens}
		for _, it := range items {
			l.add(r, it)
		}
		l.sent++
		l.flight = append(l.flight, items)
		if err := l.s.pipe.Send(l.s.over, r); err != nil {
			return err
		}
		l.s.owed <- struct{}{}
	}
}

// add puts an item and its tokens into a record.
func (l *loop) add(r *wire.Record, it batch.Item) {
	out := wire.Item{Slot: uint16(it.Slot), Generation: it.Generation, Position: int32(it.Position), Count: it.Count}
	a := l.asked[it.Request]
	switch {
	case it.End:
		out.Marks = wire.MarkEnd
	case it.Drawn:
		r.Tokens = append(r.Tokens, a.latest)
	default:
		r.Tokens = append(r.Tokens, a.Prompt[it.Position:it.Position+it.Count]...)
	}
	if it.Open {
		out.Marks |= wire.MarkOpen
		out.Extra = a.extra
		a.began <- time.Now()
	}
	if it.Answer {
		out.Marks |= a.answer()
	}
	r.Items = append(r.Items, out)
}

// take hands out the answers to the oldest record under way. What is due goes
// out first, so that the stages work while those who asked are told.
func (l *loop) take(r *wire.Record) error {
	items := l.flight[0]
	l.flight = slices.Delete(l.flight, 0, 1)
	if err := answers(r, items); err != nil {
		return err
	}
	now := time.Now()
	stops := make([]bool, len(r.Answers))
	n := 0
	for _, it := range items {
		if !it.Answer {
			continue
		}
		if a := l.asked[it.Request]; a != nil {
			a.latest = r.Answers[n].Token
			stops[n] = a.Ends != nil && a.Ends(a.latest)
		}
		n++
	}
	outcomes := l.schedule.Answered(stops)
	err := l.send()
	for i, o := range outcomes {
		if a := l.asked[o.Request]; a != nil {
			a.tokens <- told{answer: r.Answers[i], at: now, finish: o.Finish}
			if o.Finish != batch.Going {
				delete(l.asked, o.Request)
			}
		}
	}
	return err
}

// answers refuses a record that does not answer the items.
func answers(r *wire.Record, items []batch.Item) error {
	if r.Kind != wire.KindAnswers || len(r.Items) != len(items) {
		return unexpected("%d items were answered by %d", len(items), len(r.Items))
	}
	for i, it := range items {
		got := r.Items[i]
		if int(got.Slot) != it.Slot || got.Generation != it.Generation {
			return unexpected("slot %d generation %d was answered by slot %d generation %d", it.Slot, it.Generation, got.Slot, got.Generation)
		}
		if (got.Marks&wire.MarkEnd != 0) != it.End {
			return unexpected("the end of slot %d was not confirmed", it.Slot)
		}
		if (got.Marks&wire.MarkAnswer != 0) != it.Answer {
			return unexpected("slot %d got another answer than it asked for", it.Slot)
		}
	}
	return nil
}
