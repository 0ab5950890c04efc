package store_test

import (
	"context"
	"fmt"
	"testing"

	"muster/internal/event"
	"muster/internal/store"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("events=%d", size), func(b *testing.B) {
			s := opened(b, b.TempDir())
			var events []event.Stamped
			for n := range size {
				events = append(events, started(n))
			}
			for b.Loop() {
				if _, err := s.Append(context.Background(), events...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSince(b *testing.B) {
	s := opened(b, b.TempDir())
	for range 100 {
		add(b, s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	}
	for b.Loop() {
		since(b, s, 0, 1000)
	}
}

func BenchmarkSetPool(b *testing.B) {
	for _, size := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			s := opened(b, b.TempDir())
			p := store.Pool{Name: "shed"}
			for n := range size {
				p.Nodes = append(p.Nodes, store.Node{ID: nodeID(n + 1), Name: fmt.Sprint(n), Addresses: []string{"10.0.0.1:6878"}})
			}
			for b.Loop() {
				p.Nodes[0], p.Nodes[1] = p.Nodes[1], p.Nodes[0]
				p = set(b, s, p)
			}
		})
	}
}

// BenchmarkOpen opens a journal as full as it gets.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := opened(b, dir)
	numbers := make([]int, 10_000)
	for range store.KeepEventsDefault / len(numbers) {
		add(b, s, numbers...)
	}
	closed(b, s)
	for b.Loop() {
		closed(b, opened(b, dir))
	}
}
