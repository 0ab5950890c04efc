package engine

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"

	"muster/internal/fault"
	"muster/internal/wire"
)

// DecodeTokens computes one batch of a Whole context: ids[i] goes to cells[i]. After
// a fault every slot is as it was before the call.
//
// Faults: StageRecordInvalid, StageContextFull, StageDecodeFailed.
func (c *Context) DecodeTokens(cells []wire.Cell, ids []int32) error {
	if c.role != Whole {
		return invalid("token ids for a stage that takes rows")
	}
	if len(ids) != len(cells) {
		return invalid("%d token ids for %d cells", len(ids), len(cells))
	}
	if err := c.check(cells); err != nil {
		return err
	}
	for _, id := range ids {
		if id < 0 || int(id) >= c.model.vocab.size {
			return invalid("the token %d is not one of %d", id, c.model.vocab.size)
		}
	}
	copy(unsafe.Slice((*int32)(c.batch.Token), c.chunk), ids)
	return c.decode(cells)
}

// DecodeRows computes one batch of a Middle or Last context: row i, Width floats from
// i*Width, goes to cells[i]. rows is copied. After a fault every slot is as it was
// before the call.
//
// Faults: StageRecordInvalid, StageRowsMismatch, StageRowsNotFinite (where "in" for the
// caller's rows, "out" for computed ones), StageContextFull, StageDecodeFailed.
func (c *Context) DecodeRows(cells []wire.Cell, rows []float32) error {
	if c.role == Whole {
		return invalid("rows for a model that takes token ids")
	}
	if err := c.check(cells); err != nil {
		return err
	}
	if want := len(cells) * c.model.width; len(rows) != want {
		return fault.New(fault.StageRowsMismatch, component, "got", len(rows), "want", want)
	}
	in := unsafe.Slice(c.batch.Embd, len(rows))
	copy(in, rows)
	if err := c.finite(in, cells, "in"); err != nil {
		return err
	}
	return c.decode(cells)
}

// check refuses what llama.cpp would abort on or could not see.
func (c *Context) check(cells []wire.Cell) error {
	c.captured, c.cells = 0, c.cells[:0]
	if len(cells) < 1 || len(cells) > c.chunk {
		return invalid("%d cells in a batch of 1 to %d", len(cells), c.chunk)
	}
	wanted, undo := 0, 0
	defer func() {
		for _, cell := range cells[:undo] {
			c.next[cell.Slot]--
		}
	}()
	for _, cell := range cells {
		if cell.Slot < 0 || cell.Slot >= c.slots {
			return invalid("slot %d of %d", cell.Slot, c.slots)
		}
		if c.alone && cell.Slot != cells[0].Slot {
			return invalid("the slots %d and %d in one batch, with a cache for each", cells[0].Slot, cell.Slot)
		}
		if cell.Position != c.next[cell.Slot] {
			return invalid("position %d of slot %d, which is at %d", cell.Position, cell.Slot, c.next[cell.Slot])
		}
		c.next[cell.Slot]++
		undo++
		if cell.Logits {
			wanted++
		}
	}
	if wanted > c.outputs && c.role != Middle { // a Middle stage gives the rows of every cell
		return invalid("logits of %d cells wanted, %d at most", wanted, c.outputs)
	}
	return nil
}

// decode runs the batch whose tokens or rows are in place.
func (c *Context) decode(cells []wire.Cell) error {
	c.place(cells)
	if c.capture != nil {
		c.capture.reset()
	}
	c.model.lib.log.forget()
	status, err := llama.Decode(c.handle, c.batch)
	if err == nil && status != 0 {
		err = c.decodeFault(status)
	}
	if err == nil && c.capture != nil {
		err = c.take(cells)
	}
	if err != nil {
		if left := c.undo(cells); left != nil {
			return errors.Join(err, left)
		}
		return err
	}
	for _, cell := range cells {
		c.next[cell.Slot]++
	}
	c.cells = append(c.cells, cells...)
	return nil
}

// place writes positions, slots and wishes into the batch.
func (c *Context) place(cells []wire.Cell) {
	positions := unsafe.Slice((*int32)(c.batch.Pos), c.chunk)
	counts := unsafe.Slice(c.batch.NSeqId, c.chunk)
	slots := unsafe.Slice(c.batch.SeqId, c.chunk)
	logits := unsafe.Slice(c.batch.Logits, c.chunk)
	for i, cell := range cells {
		positions[i] = int32(cell.Position)
		counts[i] = 1
		*slots[i] = llama.SeqId(cell.Slot)
		logits[i] = 0
		if cell.Logits || c.role == Middle {
			logits[i] = 1
		}
	}
	c.batch.NTokens = int32(len(cells))
}

// take checks what the filter has copied.
func (c *Context) take(cells []wire.Cell) error {
	if err := c.capture.check(len(cells)); err != nil {
		return fault.New(fault.StageDecodeFailed, component, "status", 0, "log", err.Error()).Because(err)
	}
	n := len(cells) * c.model.width
	if err := c.finite(c.rows[:n], cells, "out"); err != nil {
		return err
	}
	c.captured = n
	return nil
}

// undo removes the cells of a batch that failed: llama.cpp may have kept some.
func (c *Context) undo(cells []wire.Cell) error {
	for _, cell := range cells {
		if err := c.remove(cell.Slot, c.next[cell.Slot]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Context) decodeFault(status int32) error {
	if status == 1 {
		return fault.New(fault.StageContextFull, component, "context", c.context)
	}
	return fault.New(fault.StageDecodeFailed, component, "status", status, "log", c.model.lib.log.said())
}

// finite names the first value that is not a number one can compute with.
func (c *Context) finite(x []float32, cells []wire.Cell, where string) error {
	i := firstNotFinite(x)
	if i < 0 {
		return nil
	}
	cell := cells[i/c.model.width]
	return fault.New(fault.StageRowsNotFinite, component,
		"row", cell.Position, "slot", cell.Slot, "value", x[i], "where", where, "column", i%c.model.width)
}

// Rows are the captured rows of the last decode of a Middle context: Width floats a
// cell, in the order of its cells, valid until the next decode. Empty after a fault.
func (c *Context) Rows() []float32 { return c.rows[:c.captured] }

// Logits are those of cell i of the last decode, one for each token of the vocabulary,
// valid until the next decode.
//
// Faults: StageRecordInvalid where they were not asked for; StageRowsNotFinite with
// where "logits".
func (c *Context) Logits(i int) ([]float32, error) {
	if i < 0 || i >= len(c.cells) || !c.cells[i].Logits || c.role == Middle {
		return nil, invalid("no logits of cell %d were asked for", i)
	}
	logits, err := llama.GetLogitsIth(c.handle, int32(i), c.model.vocab.size)
	if err != nil || logits == nil {
		return nil, fault.New(fault.StageDecodeFailed, component, "status", 0, "log", c.model.lib.log.said())
	}
	if j := firstNotFinite(logits); j >= 0 {
		return nil, fault.New(fault.StageRowsNotFinite, component, "row", c.cells[i].Position, "slot", c.cells[i].Slot,
			"value", logits[j], "where", "logits", "column", j)
	}
	return logits, nil
}

// Trim removes a slot's cells at and after the position; 0 empties the slot.
// Positions the slot does not hold are no fault.
func (c *Context) Trim(slot, from int) error {
	if slot < 0 || slot >= c.slots || from < 0 {
		return invalid("trim of slot %d of %d from position %d", slot, c.slots, from)
	}
	if from >= c.next[slot] {
		return nil
	}
	if err := c.remove(slot, from); err != nil {
		return err
	}
	c.next[slot] = from
	return nil
}

// Used is the number of cells held in all slots.
func (c *Context) Used() int {
	n := 0
	for _, next := range c.next {
		n += next
	}
	return n
}

func (c *Context) remove(slot, from int) error {
	done, err := llama.MemorySeqRm(c.memory, llama.SeqId(slot), llama.Pos(from), -1)
	if err == nil && !done {
		err = fmt.Errorf("the cells of slot %d from position %d cannot be removed", slot, from)
	}
	if err != nil {
		return fault.New(fault.StageDecodeFailed, component, "status", 0, "log", err.Error()).Because(err)
	}
	return nil
}

func invalid(format string, args ...any) *fault.Fault {
	return fault.New(fault.StageRecordInvalid, component, "what", fmt.Sprintf(format, args...))
}
