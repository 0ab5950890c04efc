package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"muster/internal/testkit/randmodel"
	"muster/internal/wire"
)

// answer is what a decoder made of a prompt.
type answer struct {
	tokens []int32
	logits [][]float32
}

// generate feeds a prompt in chunks and lets the sampler go on for n tokens.
func generate(t testing.TB, d decoder, prompt []int32, s wire.Sampling, vocabulary, n int) answer {
	t.Helper()
	p := newSampler(t, vocabulary, s)
	p.Accept(prompt...)
	var a answer
	position := 0
	for chunk := range slices.Chunk(prompt, recipe().Chunk) {
		a.logits = append(a.logits, all(t, d, run(0, position, len(chunk), true), chunk)...)
		position += len(chunk)
	}
	for range n {
		token := sample(t, p, a.logits[len(a.logits)-1], position-1).Token
		p.Accept(token)
		a.tokens = append(a.tokens, token)
		a.logits = append(a.logits, all(t, d, run(0, position, 1, true), []int32{token})...)
		position++
	}
	return a
}

func sameAnswer(t testing.TB, got, want answer) {
	t.Helper()
	if !slices.Equal(got.tokens, want.tokens) {
		t.Fatalf("tokens %v\nwant %v", got.tokens, want.tokens)
	}
	for i := range want.logits {
		sameBits(t, fmt.Sprintf("logits at %d", i), got.logits[i], want.logits[i])
	}
}

var samplings = map[string]wire.Sampling{
	"greedy": {Logprobs: -1},
	"seeded": {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: 11, RepeatPenalty: 1.1, PenaltyLast: 32, Logprobs: -1},
}

// The stages of a model give, bit for bit, the logits and tokens of the whole.
func TestStagesEqualTheWhole(t *testing.T) {
	for name, path := range map[string]string{"stories260K": stories, "tale": tale} {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, path)
			vocabulary := m.Vocabulary().Size()
			prompt, err := m.Vocabulary().Tokenize("Once upon a time, there was a little girl who lived near the sea. "+
				"She liked to look at the waves, and one day she found a small box in the sand. It was closed, and it was very old. "+
				"She ran home to show it to her mother, and they opened it together in the kitchen.", true, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(prompt) <= recipe().Chunk {
				t.Fatalf("the prompt of %d tokens is one chunk", len(prompt))
			}
			want := map[string]answer{}
			for how, s := range samplings {
				want[how] = generate(t, whole{openWhole(t, path)}, prompt, s, vocabulary, 60)
			}
			for _, stages := range []int{1, 2, 3, 5} {
				p := cut(t, path, stages)
				for how, s := range samplings {
					for _, goFilter := range []bool{false, true} {
						t.Run(fmt.Sprintf("%d stages %s, filter in Go %v", stages, how, goFilter), func(t *testing.T) {
							sameAnswer(t, generate(t, openChain(t, p, goFilter), prompt, s, vocabulary, 60), want[how])
						})
					}
				}
			}
		})
	}
}

// The same layer border gives the same rows wherever else the model is cut, and with
// either filter.
func TestRowsAtABorderAreTheSame(t *testing.T) {
	for _, path := range []string{stories, tale} {
		ids := tokens(500, 40, 3)
		want := map[int][]float32{}
		for _, stages := range []int{5, 3, 2} {
			p := cut(t, path, stages)
			for _, goFilter := range []bool{false, true} {
				c := openChain(t, p, goFilter)
				all(t, c, run(0, 0, len(ids), false), ids)
				for i, r := range p.ranges {
					if _, known := want[r.Start]; !known {
						want[r.Start] = slices.Clone(c.rows[i])
					}
					sameBits(t, fmt.Sprintf("%d stages, rows into layer %d", stages, r.Start), c.rows[i], want[r.Start])
				}
			}
		}
		if len(want) < 4 {
			t.Fatalf("%d borders were seen", len(want))
		}
	}
}

func TestEveryArchitecture(t *testing.T) {
	for _, c := range []randmodel.Config{
		{Architecture: "llama", Type: "q4_k", Tied: true},
		{Architecture: "llama", Type: "q4_0"},
		{Architecture: "llama", Type: "f16", Experts: 4},
		{Architecture: "qwen2", Type: "q8_0"},
		{Architecture: "qwen3", Type: "f16", Tied: true},
		{Architecture: "qwen3moe", Type: "q8_0"},
		{Architecture: "gemma3", Type: "f16"},
	} {
		t.Run(fmt.Sprintf("%s %s experts %d tied %v", c.Architecture, c.Type, c.Experts, c.Tied), func(t *testing.T) {
			path := random(t, c)
			m := openModel(t, path)
			vocabulary := m.Vocabulary().Size()
			prompt := tokens(vocabulary, 90, 5)
			want := generate(t, whole{openWhole(t, path)}, prompt, samplings["seeded"], vocabulary, 30)
			most := 3
			if c.Architecture == "gemma3" {
				most = 2 // 12 layers, cut on multiples of 6
			}
			for stages := 1; stages <= most; stages++ {
				sameAnswer(t, generate(t, openChain(t, cut(t, path, stages), false), prompt, samplings["seeded"], vocabulary, 30), want)
			}
		})
	}
}

// schedule is a mix of prefill and decode of three slots, as a busy stage sees it: slots
// come and go, and batches hold items of several.
func schedule() (batches [][]wire.Cell) {
	join := func(items ...[]wire.Cell) { batches = append(batches, slices.Concat(items...)) }
	join(run(0, 0, 20, false))
	join(run(0, 20, 1, false), run(1, 0, 30, false))
	join(run(2, 0, 7, true), run(0, 21, 1, false), run(1, 30, 1, false))
	for i := range 12 {
		join(run(1, 31+i, 1, false), run(2, 7+i, 1, false), run(0, 22+i, 1, false))
	}
	join(run(2, 19, 5, false), run(1, 43, 1, false))
	return batches
}

func TestSlotsInOneBatchEqualTheWholeFedTheSame(t *testing.T) {
	for _, path := range []string{stories, tale} {
		w, c := whole{openWhole(t, path)}, openChain(t, cut(t, path, 3), false)
		for i, cells := range schedule() {
			ids := tokens(500, len(cells), uint64(i))
			want, got := all(t, w, cells, ids), all(t, c, cells, ids)
			for k := range want {
				sameBits(t, fmt.Sprintf("batch %d, logits %d", i, k), got[k], want[k])
			}
			if i == 8 { // one slot ends in the middle and starts anew
				for _, d := range []decoder{w, c} {
					if err := d.trim(2, 0); err != nil {
						t.Fatal(err)
					}
					all(t, d, run(2, 0, 13, false), tokens(500, 13, 99))
				}
			}
		}
	}
}

func TestRollBackGivesTheSameAgain(t *testing.T) {
	for _, path := range []string{stories, tale} {
		for name, d := range map[string]decoder{
			"whole": whole{openWhole(t, path)}, "3 stages": openChain(t, cut(t, path, 3), false),
		} {
			all(t, d, run(1, 0, 25, false), tokens(500, 25, 1)) // a neighbour that stays
			all(t, d, run(0, 0, 30, false), tokens(500, 30, 2))
			tail := tokens(500, 9, 3)
			want := all(t, d, run(0, 30, 9, true), tail)
			all(t, d, run(0, 39, 1, false), tokens(500, 1, 4))
			for again := range 2 {
				if err := d.trim(0, 30); err != nil {
					t.Fatal(err)
				}
				other := all(t, d, run(0, 30, 9, true), tokens(500, 9, 5))
				if slices.Equal(other[8], want[8]) {
					t.Fatalf("%s: another text gave the same", name)
				}
				if err := d.trim(0, 30); err != nil {
					t.Fatal(err)
				}
				for i, got := range all(t, d, run(0, 30, 9, true), tail) {
					sameBits(t, fmt.Sprintf("%s, time %d, row %d", name, again, i), got, want[i])
				}
			}
		}
	}
}

// A chain is exact for each recipe, not for one alone.
func TestRecipesAreExact(t *testing.T) {
	for name, change := range map[string]func(*wire.Recipe){
		"no flash attention": func(r *wire.Recipe) { r.FlashAttention = "off" },
		"f32 cache":          func(r *wire.Recipe) { r.KVType = "f32" },
		"q8_0 cache":         func(r *wire.Recipe) { r.KVType, r.FlashAttention = "q8_0", "on" },
		"two threads":        func(r *wire.Recipe) { r.Threads = 2 },
		"small chunk":        func(r *wire.Recipe) { r.Chunk = 16 },
	} {
		t.Run(name, func(t *testing.T) {
			r := recipe()
			change(&r)
			ids := tokens(500, 16, 1)
			w := whole{openContext(t, openModel(t, tale), ContextParams{Recipe: r, Role: Whole, Outputs: 16})}
			want := all(t, w, run(0, 0, 16, true), ids)
			p := cut(t, tale, 2)
			e, err := library(t).OpenEmbedding(p.table, p.scale)
			if err != nil {
				t.Fatal(err)
			}
			c := &chain{embedding: e, rows: make([][]float32, 2), stages: []*Context{
				openContext(t, openModel(t, p.slices[0]), ContextParams{Recipe: r, Role: Middle}),
				openContext(t, openModel(t, p.slices[1]), ContextParams{Recipe: r, Role: Last, Outputs: 16}),
			}}
			for i, got := range all(t, c, run(0, 0, 16, true), ids) {
				sameBits(t, fmt.Sprintf("row %d", i), got, want[i])
			}
			if d := math.Abs(float64(want[0][0])); math.IsNaN(d) {
				t.Fatal("NaN")
			}
		})
	}
}
