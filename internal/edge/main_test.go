package edge

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var limits = wire.Limits{Items: 64, Tokens: 1 << 12, Width: 1 << 12, Extra: 1 << 16, Top: 8, Vocabulary: 1 << 10}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newConfig() Config {
	return Config{
		Run: must(id.NewRunID(rand.Reader)), Edge: must(id.NewEdgeID(rand.Reader)), Attempt: 1,
		Peer: peerID(1), Kind: wire.KindRows, Limits: limits, Meter: new(Meter),
	}
}

func peerID(n byte) id.NodeID { return id.NodeID{0: 1, 31: n} }

// rows is record n, of so many rows of width floats.
func rows(n uint64, count, width int) *wire.Record {
	r := &wire.Record{ID: n + 1, Sequence: n, Kind: wire.KindRows, Width: width, Rows: make([]float32, count*width)}
	for i := range r.Rows {
		r.Rows[i] = float32(uint32(n)*31 + uint32(i))
	}
	r.Items = []wire.Item{{Slot: 1, Generation: 1, Position: int32(n), Count: count}}
	return r
}

func encoded(r *wire.Record) []byte { return must(r.Append(nil)) }

// stretch is so many records of 1 to 1<<14 floats, in one piece.
func stretch(count int) []byte {
	var b bytes.Buffer
	for n := range uint64(count) {
		b.Write(encoded(rows(n, 1+int(n%3), 1+int(n*n*37%4096))))
	}
	return b.Bytes()
}

const patience = 20 * time.Second

func result[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it hangs")
		panic("unreachable")
	}
}

func after(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("never came: " + what)
		}
	}
}

func wantFault(t testing.TB, err error, code fault.Code) *fault.Fault {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	return fault.From(err)
}
