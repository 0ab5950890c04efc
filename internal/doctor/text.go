package doctor

import (
	"math"

	"muster/internal/core/probe"
)

// text is what a shard is fed with: ids on the first stage, else rows.
type text struct {
	ids   []int32
	rows  []float32
	width int // floats a row; 0 of ids
}

func (t text) len() int {
	if t.width == 0 {
		return len(t.ids)
	}
	return len(t.rows) / t.width
}

// cut is the tokens [from,to).
func (t text) cut(from, to int) text {
	if t.width == 0 {
		return text{ids: t.ids[from:to]}
	}
	return text{rows: t.rows[from*t.width : to*t.width], width: t.width}
}

// with is t with o in place of the tokens from at.
func (t text) with(at int, o text) text {
	n := text{ids: append([]int32(nil), t.ids...), rows: append([]float32(nil), t.rows...), width: t.width}
	copy(n.ids[min(at, len(n.ids)):], o.ids)
	copy(n.rows[min(at*t.width, len(n.rows)):], o.rows)
	return n
}

// input is a reference's passage as this shard is fed with it.
func (e *Exam) input(p probe.Passage) text {
	if e.First {
		return text{ids: p.Prompt.Tokens}
	}
	return text{rows: p.In, width: e.Width}
}

// made is n tokens of the doctor's own, always the same for a seed. Rows are
// noise with a root mean square of loud.
func (e *Exam) made(n int, seed uint64, loud float64) text {
	if e.First {
		t := text{ids: make([]int32, n)}
		for i := range t.ids {
			t.ids[i] = int32(mix(seed, uint64(i)) % uint64(e.Vocabulary))
		}
		return t
	}
	t := text{rows: make([]float32, n*e.Width), width: e.Width}
	for i := range t.rows {
		unit := float64(mix(seed, uint64(i))>>11) / (1 << 53) // [0,1)
		t.rows[i] = float32((2*unit - 1) * math.Sqrt(3) * loud)
	}
	return t
}

// other is a text as long as t and as loud, none of whose tokens is that of t.
func (e *Exam) other(t text, seed uint64) text {
	loud := rootMeanSquare(t.rows)
	if loud == 0 {
		loud = 1
	}
	o := e.made(t.len(), seed, loud)
	for i := range o.ids {
		if o.ids[i] == t.ids[i] {
			o.ids[i] = (o.ids[i] + 1) % int32(e.Vocabulary)
		}
	}
	return o
}

// mix is SplitMix64 of a seed's i-th step.
func mix(seed, i uint64) uint64 {
	z := seed*0xbf58476d1ce4e5b9 + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
