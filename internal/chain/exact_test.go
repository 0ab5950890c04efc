package chain

import (
	"path/filepath"
	"testing"

	"muster/internal/testkit/randmodel"
)

// The tokens of a chain are those of the unsliced model at any split.
func TestTokensAreThoseOfTheReference(t *testing.T) {
	for name, path := range map[string]string{"tale": tale(t), "stories260K": stories()} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, path, 1)
			cfg.Whole = true
			lengths := []int{1, 7, 60, 300}
			const most = 48
			want := answers(t, start(t, cfg), lengths, most)
			for _, workers := range []int{1, 2, 3, 5} {
				c := start(t, config(t, path, workers))
				compare(t, workers, answers(t, c, lengths, most), want)
				c.Stop()
			}
		})
	}
}

// Every architecture of the allow list gives the tokens of the whole model.
func TestEveryArchitectureIsExact(t *testing.T) {
	for name, shape := range map[string]randmodel.Config{
		"llama":           {Architecture: "llama", Type: "q8_0", Layers: 4},
		"llama q4_k":      {Architecture: "llama", Type: "q4_k", Tied: true},
		"llama experts":   {Architecture: "llama", Type: "q8_0", Experts: 4},
		"qwen2":           {Architecture: "qwen2", Type: "f16"},
		"qwen3":           {Architecture: "qwen3", Type: "q8_0"},
		"qwen3moe":        {Architecture: "qwen3moe", Type: "q8_0"},
		"gemma3, 18 deep": {Architecture: "gemma3", Type: "q8_0", Layers: 18},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "random.gguf")
			if err := randmodel.GenerateFile(path, shape); err != nil {
				t.Fatal(err)
			}
			cfg := config(t, path, 1)
			cfg.Whole = true
			lengths := []int{5, 70}
			want := answers(t, start(t, cfg), lengths, 16)
			for _, workers := range []int{1, 2, 3} {
				c := start(t, config(t, path, workers))
				compare(t, workers, answers(t, c, lengths, 16), want)
				c.Stop()
			}
		})
	}
}
