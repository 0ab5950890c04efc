package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/wire"
)

// wantFault checks the code and that every figure of sentence and hint is there.
func wantFault(t testing.TB, what string, err error, code fault.Code) *fault.Fault {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Code != code {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
	if strings.Contains(f.Error()+f.Hint(), "{") {
		t.Errorf("%s: a figure is missing in %q, %q", what, f.Error(), f.Hint())
	}
	return f
}

// firstStage is the first of two stages of stories260K, and rows that go into it.
func firstStage(t testing.TB, n int) (*Context, []float32) {
	t.Helper()
	p := cut(t, stories, 2)
	c := openContext(t, openModel(t, p.slices[0]), ContextParams{Role: Middle})
	return c, embed(t, p, n)
}

func embed(t testing.TB, p parts, n int) []float32 {
	t.Helper()
	e, err := library(t).OpenEmbedding(p.table, p.scale)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]float32, n*p.table.Width)
	if err := e.Rows(tokens(p.table.Rows, n, 8), rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRefusedBatchesLeaveTheSlotAlone(t *testing.T) {
	const width = 64
	c, rows := firstStage(t, 70)
	if err := c.DecodeRows(run(0, 0, 10, false), rows[:10*width]); err != nil {
		t.Fatal(err)
	}
	gap := append(run(1, 0, 2, false), run(1, 3, 1, false)...)
	twice := append(run(1, 0, 1, false), run(1, 0, 1, false)...)
	for _, c2 := range []struct {
		what  string
		cells []wire.Cell
		rows  int
		code  fault.Code
	}{
		{"no cell", nil, 0, fault.StageRecordInvalid},
		{"more than a chunk", run(1, 0, 65, false), 65 * width, fault.StageRecordInvalid},
		{"slot below", run(-1, 0, 1, false), width, fault.StageRecordInvalid},
		{"slot beyond", run(4, 0, 1, false), width, fault.StageRecordInvalid},
		{"far slot", run(1<<40, 0, 1, false), width, fault.StageRecordInvalid},
		{"gap", run(0, 11, 1, false), width, fault.StageRecordInvalid},
		{"rewind", run(0, 9, 1, false), width, fault.StageRecordInvalid},
		{"negative position", run(1, -1, 1, false), width, fault.StageRecordInvalid},
		{"new slot not from 0", run(1, 1, 1, false), width, fault.StageRecordInvalid},
		{"gap inside", gap, 3 * width, fault.StageRecordInvalid},
		{"one position twice", twice, 2 * width, fault.StageRecordInvalid},
		{"a value short", run(1, 0, 2, false), 2*width - 1, fault.StageRowsMismatch},
		{"a value long", run(1, 0, 2, false), 2*width + 1, fault.StageRowsMismatch},
		{"no rows", run(1, 0, 2, false), 0, fault.StageRowsMismatch},
	} {
		wantFault(t, c2.what, c.DecodeRows(c2.cells, rows[:c2.rows]), c2.code)
		if len(c.Rows()) != 0 {
			t.Errorf("%s: rows after a fault", c2.what)
		}
	}
	wantFault(t, "token ids", c.DecodeTokens(run(1, 0, 1, false), []int32{1}), fault.StageRecordInvalid)
	_, err := c.Logits(0)
	wantFault(t, "logits of a middle stage", err, fault.StageRecordInvalid)

	other, _ := firstStage(t, 1)
	if err := other.DecodeRows(run(0, 0, 10, false), rows[:10*width]); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Context{c, other} {
		if err := d.DecodeRows(run(0, 10, 5, false), rows[10*width:15*width]); err != nil {
			t.Fatal(err)
		}
	}
	sameBits(t, "rows after refusals", c.Rows(), other.Rows())
	if c.Used() != 15 {
		t.Errorf("%d cells are used, want 15", c.Used())
	}
}

func TestWholeRefuses(t *testing.T) {
	c := openContext(t, openModel(t, stories), ContextParams{Role: Whole})
	for what, id := range map[string]int32{"below": -1, "beyond": 512, "far": math.MaxInt32} {
		wantFault(t, what, c.DecodeTokens(run(0, 0, 2, false), []int32{1, id}), fault.StageRecordInvalid)
	}
	wantFault(t, "fewer ids", c.DecodeTokens(run(0, 0, 2, false), []int32{1}), fault.StageRecordInvalid)
	wantFault(t, "rows", c.DecodeRows(run(0, 0, 1, false), make([]float32, 64)), fault.StageRecordInvalid)
	wantFault(t, "more logits than outputs", c.DecodeTokens(run(0, 0, 5, true), []int32{1, 2, 3, 4, 5}), fault.StageRecordInvalid)
	_, err := c.Logits(0)
	wantFault(t, "logits before a decode", err, fault.StageRecordInvalid)
	if err := c.DecodeTokens(run(0, 0, 3, false), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 0, 1, 3, math.MaxInt32} {
		_, err := c.Logits(i)
		wantFault(t, fmt.Sprintf("logits of cell %d", i), err, fault.StageRecordInvalid)
	}
	if l, err := c.Logits(2); err != nil || len(l) != 512 {
		t.Errorf("%d logits, %v", len(l), err)
	}
	for _, at := range [][2]int{{-1, 0}, {4, 0}, {0, -1}} {
		wantFault(t, "trim", c.Trim(at[0], at[1]), fault.StageRecordInvalid)
	}
	for _, at := range [][2]int{{0, 3}, {0, 900}, {3, 0}} {
		if err := c.Trim(at[0], at[1]); err != nil {
			t.Errorf("trim of nothing: %v", err)
		}
	}
}

// Every output a batch may ask for can be had, also all of one slot.
func TestAsManyLogitsAsOutputs(t *testing.T) {
	c := openContext(t, openModel(t, stories), ContextParams{Role: Whole, Outputs: 5})
	all(t, whole{c}, run(2, 0, 5, true), tokens(512, 5, 1))
}

func TestRowsThatAreNotFiniteAreRefused(t *testing.T) {
	const width = 64
	for _, role := range []Role{Middle, Last} {
		p := cut(t, stories, 2)
		path := p.slices[0]
		if role == Last {
			path = p.slices[1]
		}
		c := openContext(t, openModel(t, path), ContextParams{Role: role})
		rows := embed(t, p, 9)
		for value, bad := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)), "-Inf": float32(math.Inf(-1))} {
			poisoned := append([]float32(nil), rows...)
			poisoned[6*width+17] = bad
			cells := append(run(1, 0, 4, false), run(3, 0, 5, false)...)
			f := wantFault(t, value, c.DecodeRows(cells, poisoned), fault.StageRowsNotFinite)
			if f.Attr("slot") != "3" || f.Attr("row") != "2" || f.Attr("value") != value || f.Attr("where") != "in" || f.Attr("column") != "17" {
				t.Errorf("%v", f.Attrs)
			}
			for slot := range 4 {
				if err := c.Trim(slot, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.DecodeRows(run(0, 0, 9, false), rows); err != nil {
			t.Fatal(err)
		}
		fresh := openContext(t, openModel(t, path), ContextParams{Role: role})
		if err := fresh.DecodeRows(run(0, 0, 9, false), rows); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "rows after poison", c.Rows(), fresh.Rows())
	}
}

// poison writes NaN over the first values of a tensor of an F32 slice.
func poison(t testing.TB, path, tensor string) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, found := f.Tensor(tensor)
	if !found {
		t.Fatal("no " + tensor)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	if _, err := w.WriteAt(nan, at.Offset); err != nil {
		t.Fatal(err)
	}
}

func TestNaNFromTheWeightsIsCaughtOnTheWayOut(t *testing.T) {
	p := cut(t, stories, 2)
	rows := embed(t, p, 3)
	poison(t, p.slices[0], "blk.1.ffn_down.weight")
	poison(t, p.slices[1], "output_norm.weight")
	middle := openContext(t, openModel(t, p.slices[0]), ContextParams{Role: Middle})
	f := wantFault(t, "middle", middle.DecodeRows(run(2, 0, 3, false), rows), fault.StageRowsNotFinite)
	if f.Attr("where") != "out" || f.Attr("slot") != "2" || f.Attr("row") != "0" || len(middle.Rows()) != 0 || middle.Used() != 0 {
		t.Errorf("%v, %d rows, %d cells", f, len(middle.Rows()), middle.Used())
	}
	last := openContext(t, openModel(t, p.slices[1]), ContextParams{Role: Last})
	if err := last.DecodeRows(run(1, 0, 3, false), rows); err != nil {
		t.Fatal(err)
	}
	_, err := last.Logits(2)
	if f := wantFault(t, "last", err, fault.StageRowsNotFinite); f.Attr("where") != "logits" || f.Attr("slot") != "1" || f.Attr("row") != "2" {
		t.Errorf("%v", f)
	}
}

func TestFullContextGoesOnAfterTrim(t *testing.T) {
	for name, open := range map[string]func() decoder{
		"whole": func() decoder { return whole{openWhole(t, stories)} },
		"chain": func() decoder { return openChain(t, cut(t, stories, 3), false) },
	} {
		d := open()
		ids := tokens(512, 64, 1)
		for i := range 4 {
			all(t, d, run(0, 64*i, 64, false), ids)
		}
		for i := range 3 {
			all(t, d, run(1, 64*i, 64, false), ids)
		}
		all(t, d, run(2, 0, 60, false), ids[:60])
		want := all(t, d, run(2, 60, 4, true), ids[60:])
		f := wantFault(t, name, d.decode(run(2, 64, 1, true), ids[:1]), fault.StageContextFull)
		if f.Attr("context") != "512" {
			t.Errorf("%v", f)
		}
		if err := d.trim(2, 60); err != nil {
			t.Fatal(err)
		}
		wantFault(t, name, d.decode(run(2, 60, 5, true), ids[:5]), fault.StageContextFull)
		for i, got := range all(t, d, run(2, 60, 4, true), ids[60:]) {
			sameBits(t, name, got, want[i])
		}
		if err := d.trim(0, 0); err != nil {
			t.Fatal(err)
		}
		all(t, d, run(2, 64, 30, true), ids[:30])
	}
}

func TestFaultsOfRecipes(t *testing.T) {
	m := openModel(t, stories)
	for field, change := range map[string]func(*wire.Recipe){
		"context":         func(r *wire.Recipe) { r.Context = 0 },
		"slots":           func(r *wire.Recipe) { r.Slots = 257 },
		"chunk":           func(r *wire.Recipe) { r.Chunk = -1 },
		"threads":         func(r *wire.Recipe) { r.Threads = 513 },
		"kv_type":         func(r *wire.Recipe) { r.KVType = "f8" },
		"flash_attention": func(r *wire.Recipe) { r.FlashAttention = "" },
	} {
		r := recipe()
		change(&r)
		_, err := m.NewContext(ContextParams{Recipe: r, Role: Whole})
		if f := wantFault(t, field, err, fault.RecipeInvalid); f.Attr("field") != field {
			t.Errorf("%s: %v", field, f)
		}
	}
	few := recipe()
	few.Chunk = few.Slots - 1
	_, err := m.NewContext(ContextParams{Recipe: few, Role: Whole})
	wantFault(t, "a chunk without a token for each slot", err, fault.RecipeInvalid)
	m.Close()
	_, err = m.NewContext(ContextParams{Recipe: recipe(), Role: Whole})
	wantFault(t, "a closed model", err, fault.InternalUnexpected)
}

func TestSmallAndOddRecipes(t *testing.T) {
	m := openModel(t, stories)
	for _, r := range []wire.Recipe{
		{Context: 1, Slots: 1, Chunk: 1, Threads: 1, KVType: "f16", FlashAttention: "auto"},
		{Context: 1, Slots: 256, Chunk: 2048, Threads: 2, KVType: "bf16", FlashAttention: "on"},
		{Context: 4096, Slots: 3, Chunk: 7, Threads: 1, KVType: "f32", FlashAttention: "off"},
	} {
		c := openContext(t, m, ContextParams{Recipe: r, Role: Whole})
		if c.Context() < r.Context {
			t.Errorf("%d cells for a context of %d", c.Context(), r.Context)
		}
		all(t, whole{c}, run(0, 0, 1, true), []int32{1})
	}
}
