package edge

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/wire"
)

var _ infer.Pipe = (*Pipe)(nil)

// far is a pipe with the other ends of its edges.
type far struct {
	out, in Config
	there   *link // tokens
	back    *link // answers
	pipe    *Pipe
}

func newFar(t testing.TB, window int) *far {
	f := &far{out: newConfig(), in: newConfig(), there: newLink(window), back: newLink(window)}
	f.out.Kind, f.in.Kind = wire.KindTokens, wire.KindAnswers
	w := must(NewWriter(t.Context(), f.out, f.there.sender()))
	f.pipe = NewPipe(w, NewReader(f.in, f.back.receiver()))
	return f
}

func tokens(n uint64, ids ...int32) *wire.Record {
	return &wire.Record{
		ID: n + 1, Sequence: n, Kind: wire.KindTokens, Tokens: ids,
		Items: []wire.Item{{Generation: 1, Marks: wire.MarkAnswer, Position: int32(n), Count: len(ids)}},
	}
}

func answer(n uint64, token int32) *wire.Record {
	return &wire.Record{
		ID: n + 1, Sequence: n, Kind: wire.KindAnswers, Answers: []wire.Answer{{Token: token}},
		Items: []wire.Item{{Generation: 1, Marks: wire.MarkAnswer, Position: int32(n), Count: 1}},
	}
}

func (f *far) answers(b []byte) {
	if _, err := f.back.sender().Write(b); err != nil {
		panic(err)
	}
}

// TestAPipeDrivesAChain: each record of tokens is answered with the sum of its
// ids.
func TestAPipeDrivesAChain(t *testing.T) {
	f := newFar(t, 64)
	ended := after(func() error {
		if p, err := ReadPreamble(f.there.receiver(), patience); err != nil || p != f.out.preamble() {
			return errors.Join(errors.New("the preamble differs"), err)
		}
		cfg := f.out
		cfg.Meter = nil
		in := NewReader(cfg, f.there.receiver())
		for n := uint64(0); ; n++ {
			var r wire.Record
			if err := in.Receive(t.Context(), &r); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			sum := int32(0)
			for _, id := range r.Tokens {
				sum += id
			}
			if _, err := f.back.sender().Write(encoded(answer(n, sum))); err != nil {
				return err
			}
		}
	})
	for n := range uint64(50) {
		if err := f.pipe.Send(t.Context(), tokens(n, 1, 2, int32(n))); err != nil {
			t.Fatal(err)
		}
		var r wire.Record
		if err := f.pipe.Receive(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Answers) != 1 || r.Answers[0].Token != int32(n)+3 {
			t.Fatalf("answer %d is %+v", n, r.Answers)
		}
	}
	out, in := f.out.Meter.Read(), f.in.Meter.Read()
	if out.Records != 50 || in.Records != 50 || out.Phase != Idle || in.Phase != Idle {
		t.Errorf("the meters say %+v and %+v", out, in)
	}
	if err := f.pipe.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := result(t, ended); err != nil {
		t.Error(err)
	}
	if code := f.back.code(receiving); code != CodeStopped {
		t.Errorf("the answers were cancelled with %d", code)
	}
}

func TestAReceiveGivenUpBetweenRecordsLosesNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFar(t, 1<<16)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var r wire.Record
		if err := f.pipe.Receive(ctx, &r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		f.answers(encoded(answer(0, 7)))
		f.answers(encoded(answer(1, 8)))
		for want := range int32(2) {
			if err := f.pipe.Receive(t.Context(), &r); err != nil || r.Answers[0].Token != want+7 {
				t.Errorf("got %v", err)
			}
		}
		if err := f.pipe.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAReceiveGivenUpInsideARecordEndsTheEdge(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFar(t, 1<<16)
		f.answers(encoded(answer(0, 7))[:80])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r wire.Record
		if err := f.pipe.Receive(ctx, &r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantFault(t, f.pipe.Receive(t.Context(), &r), fault.EdgeStreamDropped)
		if code := f.back.code(receiving); code != CodeStopped {
			t.Errorf("the answers were cancelled with %d", code)
		}
		_ = f.pipe.Close(t.Context())
	})
}

func TestAReceiverIsToldWhatIsWrongWithAnswers(t *testing.T) {
	short := encoded(answer(0, 7))
	short[len(short)-4]++ // claims a logit that is not there
	for name, c := range map[string]struct {
		b    []byte
		want fault.Code
	}{
		"half":            {encoded(answer(0, 7))[:70], fault.EdgeRecordOverdue},
		"another kind":    {encoded(tokens(0, 1)), fault.EdgeRecordRefused},
		"a gap":           {encoded(answer(1, 7)), fault.EdgeSequenceBroken},
		"a bad inside":    {short, fault.EdgeRecordRefused},
		"its end":         {endMark(0), fault.EdgeStreamEnded},
		"a wrong end":     {endMark(1), fault.EdgeEndBroken},
		"no end":          {nil, fault.EdgeStreamEnded},
		"no end and half": {encoded(answer(0, 7))[:90], fault.EdgeStreamEnded},
	} {
		testkit.Bubble(t, func(t *testing.T) {
			f := newFar(t, 1<<16)
			f.answers(c.b)
			if name != "half" {
				_ = f.back.sender().CloseWrite()
			}
			var r wire.Record
			start := time.Now()
			err := f.pipe.Receive(t.Context(), &r)
			got := wantFault(t, err, c.want)
			if got.Node != f.in.Peer.Short() {
				t.Errorf("%s: it blames %q", name, got.Node)
			}
			if again := f.pipe.Receive(t.Context(), &r); !errors.Is(again, err) {
				t.Errorf("%s: afterwards %v", name, again)
			}
			if d := time.Since(start); d > defaultWithin {
				t.Errorf("%s: after %v", name, d)
			}
			_ = f.pipe.Close(t.Context())
		})
	}
}

func TestAReceiveEndsWithTheEdgeToTheFirstStage(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFar(t, 1<<16)
		silenced := fault.New("endpoint.peer_silenced", "endpoint")
		ended := after(func() error { return f.pipe.Receive(t.Context(), new(wire.Record)) })
		synctest.Wait()
		f.there.fail(silenced)
		got := wantFault(t, <-ended, fault.EdgeStreamDropped)
		if got.Attr("edge") != f.out.Edge.Short() || !errors.Is(got, silenced.Code) {
			t.Errorf("it says %v", got)
		}
		wantFault(t, f.pipe.Send(t.Context(), tokens(0, 1)), fault.EdgeStreamDropped)
		_ = f.pipe.Close(t.Context())
	})
}

func TestASendWaitsForRoomAndEndsWithItsContext(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		f := newFar(t, 100)
		wantFault(t, f.pipe.Send(t.Context(), tokens(1, 1)), fault.EdgeSequenceBroken)
		wantFault(t, f.pipe.Send(t.Context(), answer(0, 1)), fault.EdgeRecordRefused)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := f.pipe.Send(ctx, tokens(0, 1, 2, 3)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantFault(t, f.pipe.Send(t.Context(), tokens(0, 1)), fault.EdgeStreamDropped)
		if err := f.pipe.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if code := f.there.code(sending); code != CodeStopped {
			t.Errorf("a torn edge was cancelled with %d", code)
		}
	})
}
