//go:build unix

package arena

import (
	"context"
	"fmt"
	"io"
	"testing"
)

var recordSizes = []int{8 << 10, 4 << 20}

// BenchmarkStream sends records one way through a ring of 8 MiB.
func BenchmarkStream(b *testing.B) {
	for _, size := range recordSizes {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			p := newPair(b, 8<<20)
			ctx := b.Context()
			read := make(chan error, 1)
			go func() {
				buf := make([]byte, size)
				from := p.consumer.Reader(ctx)
				for {
					if _, err := io.ReadFull(from, buf); err != nil {
						read <- err
						return
					}
					p.consumer.Done()
				}
			}()
			sent := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.producer.Write(context.Background(), sent); err != nil {
					b.Fatal(err)
				}
				p.producer.Commit()
			}
			p.producer.CloseWrite()
			if err := <-read; err != io.EOF {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkEcho sends a record through one ring and waits for it to come back
// through another: two wake-ups a turn, as between two stages.
func BenchmarkEcho(b *testing.B) {
	for _, size := range recordSizes {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			there, back := newPair(b, 8<<20), newPair(b, 8<<20)
			ended := make(chan error, 1)
			go func() { ended <- echo(context.Background(), there.consumer, back.producer, size) }()
			sent, got := make([]byte, size), make([]byte, size)
			from := back.consumer.Reader(context.Background())
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := there.producer.Write(context.Background(), sent); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(from, got); err != nil {
					b.Fatal(err)
				}
			}
			there.producer.CloseWrite()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// echo returns records of size bytes until the stream ends.
func echo(ctx context.Context, in *Consumer, out *Producer, size int) error {
	buf := make([]byte, size)
	from := in.Reader(ctx)
	for {
		if _, err := io.ReadFull(from, buf); err != nil {
			out.CloseWrite()
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := out.Write(ctx, buf); err != nil {
			return err
		}
	}
}

// BenchmarkRelay is BenchmarkEcho with another process at the far end.
func BenchmarkRelay(b *testing.B) {
	for _, size := range recordSizes {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			c := spawnPlain(b, newArena(b, 20<<20), 8<<20, size)
			sent, got := make([]byte, size), make([]byte, size)
			from := c.from.Reader(context.Background())
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.to.Write(context.Background(), sent); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(from, got); err != nil {
					b.Fatal(err)
				}
			}
			c.to.CloseWrite()
			if err := c.cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			c.leave(b, false)
		})
	}
}
