package engine

import (
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/testkit/randmodel"
	"muster/internal/wire"
)

// BenchmarkFilter decodes one token through all layers and the head without a filter,
// with the one in assembly and with the one in Go, neither of which ever finds its
// node: the difference is what asking about every node costs. A further case is a real
// middle stage, which ends after its last layer.
func BenchmarkFilter(b *testing.B) {
	path := random(b, randmodel.Config{Layers: 16, Vocabulary: 512})
	m := openModel(b, path)
	r := recipe()
	for _, c := range []struct {
		name            string
		watch, goFilter bool
	}{{"none", false, false}, {"assembly", true, false}, {"Go", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			p := ContextParams{Recipe: r, Role: Whole}
			params, err := contextParams(p)
			if err != nil {
				b.Fatal(err)
			}
			ctx := newContext(m, p, params)
			if err := m.acquire(); err != nil {
				b.Fatal(err)
			}
			defer ctx.Close()
			if c.watch {
				ctx.watch("no such node", &params, c.goFilter)
			}
			if err := ctx.open(params); err != nil {
				b.Fatal(err)
			}
			once := func() {
				ctx.place(run(0, 0, 1, false))
				*ctx.batch.Token = 7
				if status, err := llama.Decode(ctx.handle, ctx.batch); err != nil || status != 0 {
					b.Fatal(status, err)
				}
				if err := ctx.remove(0, 0); err != nil {
					b.Fatal(err)
				}
			}
			once()
			for b.Loop() {
				once()
			}
		})
	}
}

// BenchmarkMiddle is a stage of all layers of a model with no head: rows in, rows out,
// checks and copies included.
func BenchmarkMiddle(b *testing.B) {
	p := cut(b, random(b, randmodel.Config{Layers: 16}), 2)
	m := openModel(b, p.slices[0])
	rows := embed(b, p, 1)
	for name, goFilter := range map[string]bool{"assembly": false, "Go": true} {
		b.Run(name, func(b *testing.B) {
			c := openContext(b, m, ContextParams{Role: Middle, goFilter: goFilter})
			cells := []wire.Cell{{Slot: 0, Position: 0}}
			for b.Loop() {
				if err := c.DecodeRows(cells, rows); err != nil {
					b.Fatal(err)
				}
				if err := c.Trim(0, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEmbedding looks a chunk up in a quantised table.
func BenchmarkEmbedding(b *testing.B) {
	p := cut(b, tale, 1)
	e, err := library(b).OpenEmbedding(p.table, p.scale)
	if err != nil {
		b.Fatal(err)
	}
	ids := tokens(p.table.Rows, 512, 1)
	rows := make([]float32, len(ids)*p.table.Width)
	b.SetBytes(int64(4 * len(rows)))
	for b.Loop() {
		if err := e.Rows(ids, rows); err != nil {
			b.Fatal(err)
		}
	}
}
