package infer

import (
	"fmt"
	"math"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Greedy is the sampling that always takes the likeliest token.
func Greedy() wire.Sampling {
	return wire.Sampling{TopP: 1, RepeatPenalty: 1, Logprobs: -1}
}

// CheckSampling refuses settings outside their ranges, by the name of the flag
// or field.
func CheckSampling(s wire.Sampling) error {
	for _, c := range []struct {
		field    string
		value    float32
		min, max float32
	}{
		{"temperature", s.Temperature, 0, 100},
		{"top-p", s.TopP, math.SmallestNonzeroFloat32, 1},
		{"min-p", s.MinP, 0, 1},
		{"repeat-penalty", s.RepeatPenalty, 0, 100},
		{"frequency-penalty", s.FrequencyPenalty, -100, 100},
		{"presence-penalty", s.PresencePenalty, -100, 100},
		{"logprobs", float32(s.Logprobs), -1, 64},
	} {
		if !(c.value >= c.min && c.value <= c.max) { // NaN is outside too
			return fault.New(fault.RequestSamplingInvalid, "", "field", c.field, "value", c.value,
				"want", wantRange(c.min, c.max))
		}
	}
	if s.TopK < 0 || s.TopK > math.MaxInt32 {
		return fault.New(fault.RequestSamplingInvalid, "", "field", "top-k", "value", s.TopK,
			"want", fmt.Sprintf("give a number from 0, which is off, to %d", math.MaxInt32))
	}
	return nil
}

func wantRange(lowest, highest float32) string {
	if lowest == math.SmallestNonzeroFloat32 {
		return fmt.Sprintf("give a number above 0, at most %v", highest)
	}
	return fmt.Sprintf("give a number from %v to %v", lowest, highest)
}
