package engine

import (
	"math"
	"slices"
	"sort"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/wire"
)

// uniform is a number in [0,1) that depends on seed and position alone: two rounds of
// the mixing function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
// number generators, 2014).
func uniform(seed uint64, position int) float64 {
	const golden = 0x9e3779b97f4a7c15
	x := mix(seed + golden)
	x = mix(x ^ (uint64(position)+1)*golden)
	return float64(x>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw takes the candidate at the share u of the softmax over their logits.
func (p *Sampler) draw(left []llama.TokenData, u float64) int32 {
	top := left[0].Logit
	for _, c := range left {
		top = max(top, c.Logit)
	}
	p.weights = p.weights[:0]
	sum := 0.0
	for _, c := range left {
		sum += math.Exp(float64(c.Logit) - float64(top))
		p.weights = append(p.weights, sum)
	}
	at := min(u*sum, math.Nextafter(sum, 0)) // below the whole, also after rounding
	i := sort.Search(len(p.weights), func(i int) bool { return p.weights[i] > at })
	if i == len(left) { // the weights are no numbers: logits or settings were not sound
		return greatest(left)
	}
	return int32(left[i].Id)
}

// argmax is the first of the greatest logits.
func argmax(logits []float32) int32 {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// greatest is the smallest id among the candidates with the greatest logit.
func greatest(all []llama.TokenData) int32 {
	best := all[0]
	for _, c := range all {
		if c.Logit > best.Logit || (c.Logit == best.Logit && c.Id < best.Id) {
			best = c
		}
	}
	return int32(best.Id)
}

// logprobs gives the log-softmax of the chosen token and of the n greatest, falling,
// smaller ids first among equals.
func logprobs(logits []float32, chosen int32, n int) (float32, []wire.TokenLogprob) {
	top := float64(logits[argmax(logits)])
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	of := func(id int32) float32 {
		return float32(max(-math.MaxFloat32, float64(logits[id])-top-math.Log(sum)))
	}
	var tops []wire.TokenLogprob
	for _, id := range greatestOf(logits, n) {
		tops = append(tops, wire.TokenLogprob{Token: id, Logprob: of(id)})
	}
	return of(chosen), tops
}

// greatestOf lists the ids of the n greatest logits, falling. It keeps them in order as
// it goes, which is quick for the small n that people ask for.
func greatestOf(logits []float32, n int) []int32 {
	best := make([]int32, 0, min(n, len(logits)))
	for i, l := range logits {
		if len(best) == cap(best) && (n == 0 || l <= logits[best[len(best)-1]]) {
			continue
		}
		at := sort.Search(len(best), func(k int) bool { return logits[best[k]] < l })
		if len(best) == cap(best) {
			best = best[:len(best)-1]
		}
		best = slices.Insert(best, at, int32(i))
	}
	return best
}
