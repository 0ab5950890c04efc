package edge

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// between runs Out and In over one link, ring to ring.
type between struct {
	cfg      Config
	in, out  *ring // what the producer writes into, what the consumer reads from
	link     *link
	stop     context.CancelFunc
	outEnded <-chan error
	inEnded  <-chan error
}

func newBetween(t testing.TB, capacity, window int) *between {
	ctx, stop := context.WithCancel(t.Context())
	b := &between{cfg: newConfig(), in: newRing(capacity), out: newRing(capacity), link: newLink(window), stop: stop}
	b.outEnded = after(func() error { return Out(ctx, b.cfg, b.in, b.link.sender()) })
	b.inEnded = after(func() error {
		p, err := ReadPreamble(b.link.receiver(), patience)
		if err != nil || p != b.cfg.preamble() {
			t.Errorf("preamble %+v, %v", p, err)
		}
		cfg := b.cfg
		cfg.Meter = new(Meter)
		return In(ctx, cfg, b.link.receiver(), b.out)
	})
	return b
}

func TestRecordsPassAsTheyLie(t *testing.T) {
	for _, c := range []struct{ ring, window int }{{1 << 20, 1 << 20}, {4096, 100}, {100, 4096}, {1 << 16, 1 << 16}} {
		b := newBetween(t, c.ring, c.window)
		sent := append(stretch(40), encoded(rows(40, 200, 4096))...)
		fed := after(func() error {
			err := b.in.Write(t.Context(), sent)
			_ = b.in.l.sender().CloseWrite()
			return err
		})
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(b.out.Reader(t.Context()), got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, sent) {
			t.Error("other bytes came out")
		}
		for _, c := range []<-chan error{fed, b.outEnded, b.inEnded} {
			if err := result(t, c); err != nil {
				t.Error(err)
			}
		}
		done, _ := b.in.counts()
		_, committed := b.out.counts()
		f := b.cfg.Meter.Read()
		if done != 41 || committed != 41 || f.Records != 41 || f.Bytes != uint64(len(sent)) || f.Phase != Ended {
			t.Errorf("%d done, %d committed, %+v", done, committed, f)
		}
		b.stop()
	}
}
