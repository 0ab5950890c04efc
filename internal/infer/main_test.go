package infer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePipe answers every record, in order, with the token that is the position
// behind the item and 100.
type fakePipe struct {
	mu      sync.Mutex
	sent    []wire.Record
	answers chan wire.Record
	gate    chan struct{}      // an answer waits for one of it; nil: none waits
	alter   func(*wire.Record) // of an answer; nil leaves it
	refuse  error              // what Send fails with
	fail    error              // what Receive fails with
}

func newFakePipe() *fakePipe { return &fakePipe{answers: make(chan wire.Record, 64)} }

func (p *fakePipe) Send(ctx context.Context, r *wire.Record) error {
	if p.refuse != nil {
		return p.refuse
	}
	kept := *r
	kept.Items, kept.Tokens = slices.Clone(r.Items), slices.Clone(r.Tokens)
	p.mu.Lock()
	p.sent = append(p.sent, kept)
	p.mu.Unlock()
	out := wire.Record{Sequence: r.Sequence, Kind: wire.KindAnswers, Items: slices.Clone(kept.Items)}
	for _, it := range r.Items {
		if it.Marks&wire.MarkAnswer != 0 {
			out.Answers = append(out.Answers, wire.Answer{Token: it.Position + int32(it.Count) + 100})
		}
	}
	select {
	case p.answers <- out:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *fakePipe) Receive(ctx context.Context, r *wire.Record) error {
	if p.fail != nil {
		return p.fail
	}
	if p.gate != nil {
		select {
		case <-p.gate:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case *r = <-p.answers:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.alter != nil {
		p.alter(r)
	}
	return nil
}

// records are what has been sent.
func (p *fakePipe) records() []wire.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// ended are the slots whose end has gone out, in order.
func (p *fakePipe) ended() []uint16 {
	var slots []uint16
	for _, r := range p.records() {
		for _, it := range r.Items {
			if it.Marks&wire.MarkEnd != 0 {
				slots = append(slots, it.Slot)
			}
		}
	}
	return slots
}

func recipe(slots int) wire.Recipe { return wire.Recipe{Context: 16 * slots, Slots: slots, Chunk: 4} }

var errOver = errors.New("the test is over")

// serve serves through p until the test ends.
func serve(t *testing.T, p Pipe, cfg Config) *Server {
	t.Helper()
	s := Serve(t.Context(), p, cfg)
	t.Cleanup(func() { s.Close(errOver) })
	return s
}

// drained waits until a server has nothing left to do.
func drained(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s never came", what)
		}
	}
}

func ignore(wire.Answer) error { return nil }

func prompt(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i + 1)
	}
	return p
}
