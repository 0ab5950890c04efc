package probe

// Sizes of the prompts in tokens.
const (
	shortTokens = 16
	beyondChunk = 64 // that Long is longer than a chunk
	contextLeft = 32 // that Long leaves of the context
)

// Prompts are the prompts for a vocabulary of so many tokens and a recipe's
// context and chunk; all are at least 1. They are the same on every machine.
// Long is longer than the chunk where the context allows, and leaves some of
// that, half at most.
func Prompts(vocabulary, context, chunk int) []Prompt {
	long := max(1, min(max(context-contextLeft, context/2), chunk+beyondChunk))
	return []Prompt{
		{Name: Short, Tokens: scattered(min(shortTokens, long), vocabulary, 0)},
		{Name: Long, Tokens: scattered(long, vocabulary, shortTokens)},
	}
}

// scattered are n token ids all over the vocabulary, by SplitMix64 (Steele, Lea,
// Flood: "Fast Splittable Pseudorandom Number Generators") from place from on.
func scattered(n, vocabulary, from int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		z := uint64(from+i+1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		ids[i] = int32((z ^ z>>31) % uint64(vocabulary))
	}
	return ids
}
