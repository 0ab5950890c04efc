//go:build unix

package edge_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

// sizes of records, as rows of 2048 floats: a decode of one token, and the
// prefill of a chunk.
var sizes = []struct {
	name string
	rows int
}{{"8KiB", 1}, {"4MiB", 512}}

// recordsOf makes records of so many rows by their sequence.
func recordsOf(rows int) func(n uint64) []byte {
	return func(n uint64) []byte { return record(n, rows, 2048) }
}

// BenchmarkOneWay sends one record at a time from a ring over loopback to
// another ring, and measures from the write to the last byte read. Its time an
// operation is the mean of these, without that in which records are made.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			s := newSpan(b, newNode(b), newNode(b), 8<<20)
			recordOf := recordsOf(size.rows)
			got := slices.Clone(recordOf(0))
			from := s.outOf.consumer.Reader(context.Background())
			took := make([]time.Duration, 0, b.N)
			var all time.Duration
			for n := range uint64(b.N) {
				r := recordOf(n)
				start := time.Now()
				if err := s.into.producer.Write(context.Background(), r); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(from, got); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
				all += took[n]
				s.into.producer.Commit()
				s.outOf.consumer.Done()
			}
			slices.Sort(took)
			b.ReportMetric(float64(all.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
		})
	}
}

// BenchmarkStream sends records one behind the other.
func BenchmarkStream(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			s := newSpan(b, newNode(b), newNode(b), 8<<20)
			one := record(0, size.rows, 2048)
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			b.ResetTimer()
			failed := make(chan error, 1)
			go func() {
				for n := range uint64(b.N) {
					if err := s.into.producer.Write(context.Background(), record(n, size.rows, 2048)); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
			if _, err := io.CopyN(io.Discard, s.outOf.consumer.Reader(context.Background()), int64(b.N)*int64(len(one))); err != nil {
				b.Fatal(err)
			}
			if err := <-failed; err != nil {
				b.Fatal(fmt.Errorf("writing: %w", err))
			}
		})
	}
}
