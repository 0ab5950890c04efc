package orch

import (
	"testing"

	"muster/internal/core/plan"
	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

// Who owes a record, by what the stages tell of their edges.
func TestOwing(t *testing.T) {
	at := func(in, out uint64) *controlpb.StageFigures {
		return &controlpb.StageFigures{In: &controlpb.EdgeFigures{Records: in}, Out: &controlpb.EdgeFigures{Records: out}}
	}
	busy := at(4, 4)
	busy.Owes = true
	for _, c := range []struct {
		name    string
		figures []*controlpb.StageFigures
		sent    uint64
		stage   int
		code    fault.Code
	}{
		{"the one that took and gave not", []*controlpb.StageFigures{at(5, 5), at(5, 4), at(4, 4)}, 5, 1, fault.RunStepOverdue},
		{"the last of several, the others wait for room", []*controlpb.StageFigures{at(9, 7), at(7, 5), at(5, 5)}, 9, 1, fault.RunStepOverdue},
		{"by its own word", []*controlpb.StageFigures{at(4, 4), busy, at(4, 4)}, 4, 1, fault.RunStepOverdue},
		{"nothing arrives at the first", []*controlpb.StageFigures{at(4, 4), at(4, 4)}, 5, 0, fault.RunEdgeStalled},
		{"nothing arrives at the last", []*controlpb.StageFigures{at(5, 5), at(4, 4)}, 5, 1, fault.RunEdgeStalled},
		{"one tells nothing", []*controlpb.StageFigures{at(5, 5), nil, at(4, 4)}, 5, 1, fault.RunStepOverdue},
		{"none tells anything", []*controlpb.StageFigures{nil, nil}, 5, 1, fault.RunStepOverdue},
	} {
		if stage, code := owing(c.figures, c.sent); stage != c.stage || code != c.code {
			t.Errorf("%s: stage %d, %s", c.name, stage, code)
		}
	}
}

// The planner sees every byte of the model once, and the tied head twice.
func TestSizesCountEveryTensor(t *testing.T) {
	m, err := openModel(t.Context(), Config{Model: Model{Name: demo.Name}})
	if err != nil {
		t.Fatal(err)
	}
	s := m.sizes()
	sum := s.EmbeddingBytes + s.HeadBytes
	for _, b := range s.LayerBytes {
		sum += b
	}
	want := uint64(m.file.Size())
	if m.facts.Tied {
		want += s.EmbeddingBytes
	}
	if sum != want || len(s.LayerBytes) != 8 || s.KVBytes == 0 {
		t.Errorf("%d bytes of %d, %+v", sum, want, s)
	}
	p, err := plan.Place(s, []plan.Node{{ID: idOf(newKey(t)), Boot: newBoot(t), Memory: 1 << 30}}, plan.Constraints{Context: 512, Slots: 1})
	if err != nil || len(p.Stages) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLayerOf(t *testing.T) {
	for name, want := range map[string]int{
		"blk.7.attn_q.weight": 7, "blk.0.ffn_norm.weight": 0, "token_embd.weight": -1, "blk.x.y": -1, "blk.3": -1, "blk.-1.a": -1,
	} {
		got, in := layerOf(name)
		if !in {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func nodeLeft() *controlpb.Report {
	return &controlpb.Report{Event: &controlpb.Report_NodeLeft{NodeLeft: &controlpb.NodeLeft{}}}
}
