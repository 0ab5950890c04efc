package engine

import (
	"testing"

	"muster/internal/fault"
)

// With a cache for each slot a slot's logits are the same bits whatever other
// slots did before and between, and a batch of two slots is refused: its rows
// would come out in another order.
func TestSlotsWithCachesOfTheirOwnDoNotMeet(t *testing.T) {
	r := recipe()
	r.Deterministic = true
	m := openModel(t, stories)
	ids := tokens(512, 60, 3)
	logits := func(crowded bool) []float32 {
		c := openContext(t, m, ContextParams{Role: Whole, Recipe: r})
		feed := func(slot, from, n int, wanted bool) {
			t.Helper()
			cells := run(slot, from, n, false)
			cells[n-1].Logits = wanted
			if err := c.DecodeTokens(cells, ids[from:from+n]); err != nil {
				t.Fatal(err)
			}
		}
		if crowded {
			feed(0, 0, 33, false)
			feed(3, 0, 7, false)
		}
		feed(2, 0, 40, false)
		if crowded {
			if err := c.Trim(0, 0); err != nil {
				t.Fatal(err)
			}
			feed(1, 0, 21, false)
		}
		feed(2, 40, 1, true)
		got, err := c.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		both := append(run(1, 21, 1, false), run(2, 41, 1, false)...)
		if !crowded {
			both = append(run(1, 0, 1, false), run(2, 41, 1, false)...)
		}
		kept := append([]float32(nil), got...)
		wantFault(t, "two slots in a batch", c.DecodeTokens(both, []int32{1, 2}), fault.StageRecordInvalid)
		return kept
	}
	sameBits(t, "logits in a crowd", logits(true), logits(false))
}
