package chain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/infer"
	"muster/internal/testkit"
	"muster/internal/weights"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tale and stories are the paths of the small models.
func tale(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tale.gguf")
	if err := os.WriteFile(path, demo.Tale(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func stories() string { return filepath.Join("..", "..", "testdata", "stories260K.gguf") }

func config(t *testing.T, path string, workers int) Config {
	t.Helper()
	cache, err := weights.OpenCache("")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Model: Model{Name: filepath.Base(path), Path: path}, Workers: workers,
		Recipe: wire.Recipe{Slots: 1, Chunk: 64, Threads: 1, KVType: "f16", FlashAttention: "auto", Repack: true},
		Engine: testkit.EngineDir(t), Binary: testkit.WorkerBinary(t), Cache: cache,
		Tell: func(event.Event) {},
	}
}

func start(t *testing.T, cfg Config) *Chain {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// promptOf is a prompt of exactly n tokens, cut from a long text.
func promptOf(t *testing.T, c *Chain, n int) []int32 {
	t.Helper()
	const text = "Once upon a time there was a little fox who lived in a small house by the sea. " +
		"One day she went to the park with her friend and they saw a big dog. "
	ids, err := c.Tokenize(t.Context(), text+text+text+text+text+text+text+text)
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) < n {
		t.Fatalf("the text has %d tokens", len(ids))
	}
	return ids[:n]
}

func generate(t *testing.T, c *Chain, req infer.Request) ([]int32, infer.Finish) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := c.Generate(ctx, req, func(string, wire.Answer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return res.Tokens, res.Finish
}

// samplings are the two ways of drawing that must not depend on the split.
func samplings() map[string]wire.Sampling {
	warm := infer.Greedy()
	warm.Temperature, warm.Seed, warm.TopK, warm.TopP, warm.RepeatPenalty, warm.PenaltyLast = 0.8, 42, 40, 0.95, 1.1, 64
	plain := infer.Greedy()
	plain.Temperature, plain.Seed = 0.8, 7
	return map[string]wire.Sampling{"greedy": infer.Greedy(), "seed 7 at 0.8": plain, "all samplers": warm}
}

// answers asks the chain for every length and sampling.
func answers(t *testing.T, c *Chain, lengths []int, most int) map[string][]int32 {
	t.Helper()
	got := map[string][]int32{}
	for _, n := range lengths {
		for name, s := range samplings() {
			ids, finish := generate(t, c, infer.Request{Prompt: promptOf(t, c, n), Sampling: s, MaxTokens: most})
			if len(ids) == 0 && finish != infer.Stop {
				t.Errorf("prompt of %d, %s: no token and finish %s", n, name, finish)
			}
			got[fmt.Sprintf("prompt of %d, %s", n, name)] = ids
		}
	}
	return got
}

func compare(t *testing.T, workers int, got, want map[string][]int32) {
	t.Helper()
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%d workers, %s:\n got %v\nwant %v", workers, name, got[name], want[name])
		}
	}
}
