package edge

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// side is Out or In over memory: what is fed comes to its source, what it
// passes on lies in its sink.
type side struct {
	name  string
	cfg   Config
	feed  *link // its source
	sink  *link
	code  func() uint32 // with which it has cancelled its stream
	ended chan error
	stop  context.CancelFunc
}

// sides starts an Out and an In whose sinks hold so many bytes.
func sides(t testing.TB, capacity int) []*side {
	out := &side{name: "out", feed: newLink(1 << 24), sink: newLink(capacity)}
	out.code = func() uint32 { return out.sink.code(sending) }
	in := &side{name: "in", feed: newLink(1 << 24), sink: newLink(capacity)}
	in.code = func() uint32 { return in.feed.code(receiving) }
	for _, s := range []*side{out, in} {
		ctx, stop := context.WithCancel(t.Context())
		s.stop, s.cfg, s.ended = stop, newConfig(), make(chan error, 1)
		t.Cleanup(stop)
		go func() {
			if s.name == "out" {
				s.ended <- Out(ctx, s.cfg, &ring{l: s.feed}, s.sink.sender())
			} else {
				s.ended <- In(ctx, s.cfg, s.feed.receiver(), &ring{l: s.sink})
			}
		}()
	}
	return []*side{out, in}
}

func (s *side) give(b []byte) {
	if _, err := s.feed.sender().Write(b); err != nil {
		panic(err)
	}
}

func (s *side) phase() Phase { return s.cfg.Meter.Read().Phase }

// bubble runs a test for both sides on a clock of its own.
func bubble(t *testing.T, capacity int, f func(t *testing.T, s *side)) {
	for i, name := range []string{"out", "in"} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				all := sides(t, capacity)
				f(t, all[i])
				for _, s := range all {
					s.stop()
				}
				synctest.Wait()
			})
		})
	}
}

func TestAnIdleEdgeWaitsForDays(t *testing.T) {
	bubble(t, 1<<20, func(t *testing.T, s *side) {
		time.Sleep(72 * time.Hour)
		record := encoded(rows(0, 1, 100))
		s.give(record[:80])
		time.Sleep(time.Second)
		s.give(record[80:])
		time.Sleep(72 * time.Hour)
		if f := s.cfg.Meter.Read(); f.Records != 1 || f.Phase != Idle || f.Still < 71*time.Hour {
			t.Errorf("the meter says %+v", f)
		}
	})
}

func TestHalfARecordIsOverdueAfterWithin(t *testing.T) {
	whole := encoded(rows(0, 2, 4000))
	for _, n := range []int{1, 16, 63, 64, 90, 96, 100, len(whole) - 1} {
		bubble(t, 1<<20, func(t *testing.T, s *side) {
			time.Sleep(time.Hour)
			start := time.Now()
			s.give(whole[:n])
			f := wantFault(t, <-s.ended, fault.EdgeRecordOverdue)
			if d := time.Since(start); d != defaultWithin {
				t.Errorf("after %v", d)
			}
			if f.Attr("got") == "" || f.Attr("edge") != s.cfg.Edge.Short() || f.Attr("peer") != s.cfg.Peer.Short() {
				t.Errorf("it says %v", f)
			}
			if (f.Node == s.cfg.Peer.Short()) != (s.name == "in") {
				t.Errorf("it blames %q", f.Node)
			}
			if s.code() != CodeFaulted {
				t.Errorf("the stream was cancelled with %d", s.code())
			}
			if s.phase() != Ended {
				t.Errorf("its phase is %v", s.phase())
			}
		})
	}
}

// A byte now and then keeps no edge for ever, yet a large record may take its
// time.
func TestADrippingRecordIsOverdueBySize(t *testing.T) {
	large := encoded(rows(0, 1024, 4096)) // 16 MiB
	bubble(t, 1<<25, func(t *testing.T, s *side) {
		start := time.Now()
		s.give(large[:1])
		for i := 1; ; i++ {
			select {
			case err := <-s.ended:
				wantFault(t, err, fault.EdgeRecordOverdue)
				if d := time.Since(start); d > defaultWithin {
					t.Errorf("the head took %v", d)
				}
				return
			case <-time.After(defaultWithin - time.Second):
				s.give(large[i : i+1])
			}
		}
	})
	bubble(t, 1<<25, func(t *testing.T, s *side) {
		start := time.Now()
		for b := large; len(b) > 0; {
			n := min(len(b), slowRate) // a second's worth, in a second
			s.give(b[:n])
			b = b[n:]
			time.Sleep(time.Second)
		}
		if f := s.cfg.Meter.Read(); f.Records != 1 {
			t.Errorf("after %v the meter says %+v", time.Since(start), f)
		}
	})
}

func TestAFullSinkIsNoFaultOfTheSource(t *testing.T) {
	sent := append(encoded(rows(0, 200, 4096)), encoded(rows(1, 1, 1))...)
	bubble(t, 1000, func(t *testing.T, s *side) {
		s.give(sent)
		time.Sleep(time.Hour)
		if f := s.cfg.Meter.Read(); f.Phase != Passing || f.Records != 0 {
			t.Errorf("stalled, the meter says %+v", f)
		}
		if held := s.sink.held(); held > 1000 {
			t.Errorf("the sink holds %d", held)
		}
		want := len(sent)
		if s.name == "out" {
			want += preambleSize
		}
		buf := make([]byte, 4096)
		for got := 0; got < want; {
			n, err := s.sink.receiver().Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		synctest.Wait()
		if f := s.cfg.Meter.Read(); f.Records != 2 || f.Phase != Idle {
			t.Errorf("afterwards the meter says %+v", f)
		}
	})
}

// The end of a context is no fault, whatever the pump is doing, and afterwards
// nothing of it touches ring or stream.
func TestStopInEveryPhase(t *testing.T) {
	large := encoded(rows(0, 200, 4096))
	for name, c := range map[string]struct {
		give []byte
		want Phase
	}{
		"idle":    {nil, Idle},
		"inside":  {large[:70], Inside},
		"passing": {large, Passing},
	} {
		bubble(t, 1000, func(t *testing.T, s *side) {
			s.give(c.give)
			synctest.Wait()
			if s.phase() != c.want {
				t.Fatalf("%s: its phase is %v", name, s.phase())
			}
			s.stop()
			if err := <-s.ended; err != nil {
				t.Errorf("%s: got %v", name, err)
			}
			if s.code() != CodeStopped {
				t.Errorf("%s: the stream was cancelled with %d", name, s.code())
			}
			if s.phase() != Ended {
				t.Errorf("%s: afterwards its phase is %v", name, s.phase())
			}
			touched := s.sink.held()
			time.Sleep(time.Minute)
			if s.sink.held() != touched {
				t.Errorf("%s: it wrote after its end", name)
			}
		})
	}
}

func TestALostStreamIsNoticedInEveryPhase(t *testing.T) {
	large := encoded(rows(0, 200, 4096))
	for name, give := range map[string][]byte{"idle": nil, "inside": large[:70], "passing": large} {
		for _, c := range []struct {
			err  error
			want fault.Code
		}{
			{fault.New("endpoint.peer_silenced", "endpoint", "peer", "x"), fault.EdgeStreamDropped},
			{fault.New("endpoint.stream_cancelled", "endpoint", "stream_code", CodeStopped), fault.EdgeStreamDropped},
			{fault.New("endpoint.stream_cancelled", "endpoint", "stream_code", CodeRefused), fault.EdgeStreamRefused},
		} {
			bubble(t, 1000, func(t *testing.T, s *side) {
				s.give(give)
				synctest.Wait()
				if s.name == "in" {
					s.feed.fail(c.err)
					if name == "passing" { // it looks at the stream again once the ring has room
						go func() {
							buf := make([]byte, 4096)
							for {
								if _, err := s.sink.receiver().Read(buf); err != nil {
									return
								}
							}
						}()
						defer s.sink.fail(errors.New("the test has ended"))
					}
				} else {
					s.sink.fail(c.err)
				}
				f := wantFault(t, <-s.ended, c.want)
				if !errors.Is(f.Cause, fault.From(c.err).Code) || f.Node != s.cfg.Peer.Short() {
					t.Errorf("%s: it says %v", name, f)
				}
			})
		}
	}
}
