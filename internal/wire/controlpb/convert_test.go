package controlpb_test

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"muster/internal/id"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

func TestIdsCross(t *testing.T) {
	if controlpb.Node(node) != nodeID || controlpb.Boot(boot) != bootID || controlpb.Run(run) != runID || controlpb.Edge(edge) != edgeID {
		t.Error("an id came back as another")
	}
	if controlpb.ID(id.NodeID{}) != nil || controlpb.ID(id.RunID{}) != nil || controlpb.ID(id.BootID{}) != nil || controlpb.ID(id.EdgeID{}) != nil {
		t.Error("none is sent as bytes")
	}
	for _, b := range [][]byte{nil, {1}, make([]byte, 15), make([]byte, 17), make([]byte, 33)} {
		if !controlpb.Node(b).IsZero() || !controlpb.Boot(b).IsZero() || !controlpb.Run(b).IsZero() || !controlpb.Edge(b).IsZero() {
			t.Errorf("%d bytes became an id", len(b))
		}
	}
}

func TestRecipesCross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.IntRange(0, math.MaxInt32)
		sent := wire.Recipe{
			Context: figure.Draw(t, "context"), Slots: figure.Draw(t, "slots"), Chunk: figure.Draw(t, "chunk"),
			Threads: figure.Draw(t, "threads"), GPULayers: figure.Draw(t, "layers"), Repack: rapid.Bool().Draw(t, "repack"),
			Deterministic: rapid.Bool().Draw(t, "deterministic"),
			KVType:        rapid.String().Draw(t, "type"), FlashAttention: rapid.String().Draw(t, "attention"),
		}
		var got controlpb.Recipe
		crossed(t, controlpb.RecipeOf(sent), &got)
		if got.Wire() != sent {
			t.Fatalf("%+v arrived as %+v", sent, got.Wire())
		}
	})
}

func TestDevicesCross(t *testing.T) {
	sent := []wire.Device{
		{Kind: "cpu", Name: "CPU", Description: "a processor", MemoryFree: 1, MemoryTotal: math.MaxUint64},
		{Kind: "gpu", Name: "odd \xff"},
	}
	m := controlpb.DevicesOf(sent)
	if len(m) != len(sent) {
		t.Fatalf("%d devices are sent, not %d", len(m), len(sent))
	}
	for i, want := range []wire.Device{sent[0], {Kind: "gpu", Name: "odd \uFFFD"}} {
		var got controlpb.Device
		crossed(t, m[i], &got)
		if got.Wire() != want {
			t.Errorf("%+v arrived as %+v", sent[i], got.Wire())
		}
	}
}

func TestTimesCross(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Second: 1_000_000, -time.Second: -1_000_000,
	} {
		if got := controlpb.Micros(d); got != want {
			t.Errorf("%s is sent as %d µs, want %d", d, got, want)
		}
	}
	const longest = math.MaxInt64 / 1000 * 1000 * time.Nanosecond
	for micros, want := range map[int64]time.Duration{
		0: 0, 5: 5 * time.Microsecond, -5: -5 * time.Microsecond,
		math.MaxInt64: longest, math.MinInt64: -longest,
	} {
		if got := controlpb.Duration(micros); got != want {
			t.Errorf("%d µs arrive as %s, want %s", micros, got, want)
		}
	}
}

func TestLayersCross(t *testing.T) {
	if got := controlpb.LayersOf([2]int{3, 6}).Range(); got != [2]int{3, 6} {
		t.Errorf("[3,6) arrived as %v", got)
	}
}

// crossed sends one message over bytes into another.
func crossed(t interface{ Fatal(...any) }, sent, got proto.Message) {
	b, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := controlpb.Decode(b, got); err != nil {
		t.Fatal(err)
	}
}
