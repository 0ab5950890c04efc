package wire

// Cell is one row's place in a batch: a slot's cache, the position in it, and
// whether logits are wanted there.
type Cell struct {
	Slot     int
	Position int
	Logits   bool
}

// Cells appends one cell a token of the record, in the order of its payload.
// The last token of an item with MarkAnswer wants logits.
func (r *Record) Cells(dst []Cell) []Cell {
	for _, it := range r.Items {
		for i := range it.Count {
			dst = append(dst, Cell{
				Slot:     int(it.Slot),
				Position: int(it.Position) + i,
				Logits:   it.Marks&MarkAnswer != 0 && i == it.Count-1,
			})
		}
	}
	return dst
}
