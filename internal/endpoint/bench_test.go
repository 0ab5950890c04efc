package endpoint_test

import (
	"context"
	"io"
	"testing"

	"muster/internal/endpoint"
	"muster/internal/id"
)

// benchPair are two nodes whose pipes are read and, by back, answered.
func benchPair(b *testing.B, pipe func(peer *node, r endpoint.Receiver)) (*node, *node) {
	b.Helper()
	x := open(b)
	var y *node
	y = open(b, func(c *config) {
		for i, p := range c.Protocols {
			if p.Name == pipeProtocol {
				c.Protocols[i].Uni = func(_ context.Context, _ id.NodeID, r endpoint.Receiver) { pipe(y, r) }
			}
		}
	})
	acquaint(x, y)
	x.mustCall(y, echoProtocol)
	return x, y
}

// A record of 8 KiB by one uni-stream and back by another: one hop of a token
// through a stage, there and back.
func BenchmarkUniRoundTrip8KiB(b *testing.B) {
	const size = 8 << 10
	var x *node
	x, y := benchPair(b, func(y *node, r endpoint.Receiver) {
		back, err := y.OpenUni(context.Background(), x.ID(), pipeProtocol)
		if err != nil {
			return
		}
		buf := make([]byte, size)
		for {
			if _, err := io.ReadFull(r, buf); err != nil {
				return
			}
			if _, err := back.Write(buf); err != nil {
				return
			}
		}
	})
	out, err := x.OpenUni(context.Background(), y.ID(), pipeProtocol)
	if err != nil {
		b.Fatal(err)
	}
	in := receive(b, "the way back", x.pipes)
	buf := make([]byte, size)
	b.SetBytes(2 * size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := out.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(in, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// Records of 4 MiB one way: prefill.
func BenchmarkUni4MiB(b *testing.B) {
	const size = 4 << 20
	arrived := make(chan struct{})
	x, y := benchPair(b, func(_ *node, r endpoint.Receiver) {
		buf := make([]byte, size)
		for {
			if _, err := io.ReadFull(r, buf); err != nil {
				return
			}
			arrived <- struct{}{}
		}
	})
	out, err := x.OpenUni(context.Background(), y.ID(), pipeProtocol)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := out.Write(buf); err != nil {
			b.Fatal(err)
		}
		<-arrived
	}
}

// A call of 256 bytes and its answer, a stream for each.
func BenchmarkCall256B(b *testing.B) {
	x, y := open(b), open(b, func(c *config) {
		c.Protocols[0].Bidi = func(_ context.Context, _ id.NodeID, s endpoint.Stream) {
			buf := make([]byte, 256)
			if _, err := io.ReadFull(s, buf); err == nil {
				_, _ = s.Write(buf)
			}
		}
	})
	acquaint(x, y)
	buf := make([]byte, 256)
	call := func() error {
		s, err := x.OpenStream(context.Background(), y.ID(), echoProtocol)
		if err != nil {
			return err
		}
		if _, err := s.Write(buf); err != nil {
			return err
		}
		if err := s.CloseWrite(); err != nil {
			return err
		}
		if _, err := io.ReadFull(s, make([]byte, 256)); err != nil {
			return err
		}
		_, err = s.Read(buf[:1])
		if err == io.EOF {
			return nil
		}
		return err
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("16 at once", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8) // times two processors
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// A dial: both identities proven and the dialler let in.
func BenchmarkDialBack(b *testing.B) {
	x, y := open(b), open(b)
	acquaint(x, y)
	for b.Loop() {
		if err := x.DialBack(context.Background(), y.ID(), y.addr()); err != nil {
			b.Fatal(err)
		}
	}
}
