package infer

import (
	"fmt"

	"muster/internal/fault"
	"muster/internal/wire"
)

// defaultContext is the most tokens that a context left open gives a slot.
const defaultContext = 4096

// MostSlots is the greatest number of slots of a recipe.
const MostSlots = 64

// SettleRecipe fills in what the recipe leaves open for a model trained for so
// many tokens (0 where it does not say), and refuses impossible settings by the
// name of their flag: recipe.invalid. A chunk never exceeds the context:
// llama.cpp would cut it down without a word.
func SettleRecipe(r wire.Recipe, trained int) (wire.Recipe, error) {
	orDefault(&r.Slots, 1)
	if r.Context == 0 {
		each := defaultContext
		if trained > 0 {
			each = min(trained, defaultContext)
		}
		r.Context = each * max(1, r.Slots)
	}
	orDefault(&r.Chunk, 512)
	if r.KVType == "" {
		r.KVType = "f16"
	}
	if r.FlashAttention == "" {
		r.FlashAttention = "auto"
	}
	for _, c := range []struct {
		field              string
		value, least, most int
	}{
		{"ctx", r.Context, 1, 1 << 24},
		{"chunk", r.Chunk, 1, 1 << 16},
		{"slots", r.Slots, 1, MostSlots},
		{"threads", r.Threads, 0, 512},
		{"gpu_layers", r.GPULayers, 0, 1 << 16},
	} {
		if c.value < c.least || c.value > c.most {
			return r, fault.New(fault.RecipeInvalid, "", "field", c.field, "value", c.value,
				"want", fmt.Sprintf("give a number from %d to %d", c.least, c.most))
		}
	}
	r.Chunk = min(r.Chunk, r.Context)
	switch {
	case r.Context < r.Slots:
		return r, fault.New(fault.RecipeInvalid, "", "field", "ctx", "value", r.Context,
			"want", fmt.Sprintf("give %d or more, a token for each slot", r.Slots))
	case r.Chunk < r.Slots: // llama.cpp plans for a token of each slot in a batch
		return r, fault.New(fault.RecipeInvalid, "", "field", "chunk", "value", r.Chunk,
			"want", fmt.Sprintf("give %d or more, a token for each slot", r.Slots))
	}
	return r, nil
}

func orDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}
