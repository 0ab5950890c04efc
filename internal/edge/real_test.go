//go:build unix

package edge_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"muster/internal/arena"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire"
)

// These tests run ring to ring: real memory files, real sockets on loopback.

const patience = 20 * time.Second

var limits = wire.Limits{Items: 4, Tokens: 1 << 11, Width: 1 << 12, Extra: 1 << 10}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ring is a ring with both ends in this process.
type ring struct {
	lease    *arena.Lease
	producer *arena.Producer
	consumer *arena.Consumer
}

func newRing(t testing.TB, capacity int) *ring {
	a := must(arena.Create(arena.SizeFor(capacity)))
	t.Cleanup(func() { _ = a.Close() })
	r := &ring{lease: must(a.Lease(capacity))}
	bell := func() (wait, ring *os.File) {
		wait, ring, err := arena.Doorbell()
		if err != nil {
			t.Fatal(err)
		}
		return wait, ring
	}
	pw, cr := bell()
	cw, pr := bell()
	r.producer = must(a.Producer(r.lease.Place(), pw, pr))
	r.consumer = must(a.Consumer(r.lease.Place(), cw, cr))
	return r
}

// node is an endpoint with a table of edges.
type node struct {
	*endpoint.Endpoint
	table   *edge.Table
	refused chan *fault.Fault
}

func newNode(t testing.TB) *node {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{refused: make(chan *fault.Fault, 64)}
	n.table = edge.NewTable(edge.TableConfig{Tell: func(f *fault.Fault) { n.refused <- f }, Early: 200 * time.Millisecond})
	n.Endpoint = must(endpoint.Open(endpoint.Config{Key: key, Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{{
		Name: edge.Protocol,
		Uni: func(ctx context.Context, peer id.NodeID, r endpoint.Receiver) {
			n.table.Serve(ctx, peer, r)
		},
		Limits: endpoint.Limits{Window: 1 << 20},
	}}}))
	t.Cleanup(func() { n.close(t) })
	return n
}

func (n *node) close(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// span is an edge between two nodes, ring to ring.
type span struct {
	a, b     *node
	cfg      edge.Config // of the sending side
	into     *ring       // what the sending node's worker writes
	outOf    *ring       // what the receiving node's worker reads
	received *edge.Meter
	stop     context.CancelFunc
	out, in  chan error
}

func newSpan(t testing.TB, a, b *node, capacity int) *span {
	a.Permit(1, map[id.NodeID][]string{b.ID(): {b.Addr().String()}})
	b.Permit(1, map[id.NodeID][]string{a.ID(): {a.Addr().String()}})
	s := &span{
		a: a, b: b, into: newRing(t, capacity), outOf: newRing(t, capacity),
		received: new(edge.Meter), out: make(chan error, 1), in: make(chan error, 1),
	}
	s.cfg = edge.Config{
		Run: must(id.NewRunID(rand.Reader)), Edge: must(id.NewEdgeID(rand.Reader)), Attempt: 1,
		Peer: b.ID(), Kind: wire.KindRows, Limits: limits, Meter: new(edge.Meter),
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	arrival := must(b.table.Expect(ctx, edge.Expected{Edge: s.cfg.Edge, Peer: a.ID(), Run: s.cfg.Run, Attempt: 1}))
	to := must(a.OpenUni(t.Context(), b.ID(), edge.Protocol))
	go func() { s.out <- edge.Out(ctx, s.cfg, s.into.consumer, to) }()
	go func() {
		defer arrival.Close()
		r, err := arrival.Wait(ctx)
		if err == nil {
			cfg := s.cfg
			cfg.Peer, cfg.Meter = a.ID(), s.received
			err = edge.In(ctx, cfg, r, s.outOf.producer)
		}
		s.in <- err
	}()
	t.Cleanup(stop)
	return s
}

func result(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(patience):
		t.Fatal("it hangs")
		return nil
	}
}

func record(n uint64, count, width int) []byte {
	r := &wire.Record{
		ID: n + 1, Sequence: n, Kind: wire.KindRows, Width: width, Rows: make([]float32, count*width),
		Items: []wire.Item{{Generation: 1, Position: int32(n % 1000), Count: count}},
	}
	for i := range r.Rows {
		r.Rows[i] = float32(uint32(n)*7 + uint32(i))
	}
	return must(r.Append(nil))
}

func TestRingToRingThroughTheEndpoint(t *testing.T) {
	s := newSpan(t, newNode(t), newNode(t), 256<<10)
	sizes := [][2]int{{1, 1}, {1, 2048}, {512, 2048}, {3, 17}, {1024, 1024}, {1, 4096}}
	const count = 60
	go func() {
		for n := range uint64(count) {
			size := sizes[n%uint64(len(sizes))]
			if err := s.into.producer.Write(context.Background(), record(n, size[0], size[1])); err != nil {
				t.Error(err)
			}
			s.into.producer.Commit()
		}
		s.into.producer.CloseWrite()
	}()
	from := s.outOf.consumer.Reader(t.Context())
	for n := range uint64(count) {
		size := sizes[n%uint64(len(sizes))]
		want := record(n, size[0], size[1])
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("record %d differs (%v)", n, err)
		}
		s.outOf.consumer.Done()
	}
	for _, c := range []chan error{s.out, s.in} {
		if err := result(t, c); err != nil {
			t.Error(err)
		}
	}
	if c := s.into.lease.Counters(); c.RecordsRead != count || c.Read != c.Written {
		t.Errorf("the first ring's counters are %+v", c)
	}
	if c := s.outOf.lease.Counters(); c.RecordsWritten != count {
		t.Errorf("the last ring's counters are %+v", c)
	}
}

// A consumer that stands still makes the producer stand still, with bounded bytes between them and
// no goroutine or memory that grows; afterwards all comes out.
func TestAStoppedConsumerStopsTheProducer(t *testing.T) {
	s := newSpan(t, newNode(t), newNode(t), 256<<10)
	const count = 10
	one := record(0, 512, 2048) // 4 MiB
	go func() {
		for n := range uint64(count) {
			if err := s.into.producer.Write(context.Background(), record(n, 512, 2048)); err != nil {
				t.Error(err)
				return
			}
			s.into.producer.Commit()
		}
		s.into.producer.CloseWrite()
	}()
	still := func() bool {
		in, out := s.cfg.Meter.Read(), s.received.Read()
		return in.Phase == edge.Passing && out.Phase == edge.Passing && in.Still > time.Second && out.Still > time.Second
	}
	eventually(t, "all stands still", still)
	goroutines := runtime.NumGoroutine()
	sent := s.into.lease.Counters().Written
	// Two rings of 256 KiB, two windows of as much, 1 MiB of the stream and half as much again of the
	// connection.
	if bound := uint64(4*256<<10 + 3<<19); sent > bound {
		t.Errorf("%d bytes were taken while nobody read, the bound is %d", sent, bound)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		t.Errorf("goroutines went from %d to %d", goroutines, n)
	}
	if _, err := io.CopyN(io.Discard, s.outOf.consumer.Reader(t.Context()), int64(count*len(one))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []chan error{s.out, s.in} {
		if err := result(t, c); err != nil {
			t.Error(err)
		}
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never came: " + what)
		}
	}
}

// Either node's end reaches the other's pump as a typed fault.
func TestTheEndOfANodeReachesTheOther(t *testing.T) {
	for _, which := range []string{"sender", "receiver"} {
		s := newSpan(t, newNode(t), newNode(t), 64<<10)
		if err := s.into.producer.Write(t.Context(), record(0, 1, 2048)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a record passed", func() bool { return s.received.Read().Records == 1 })
		gone, ended, peer := s.a, s.in, s.a.ID()
		if which == "receiver" {
			gone, ended, peer = s.b, s.out, s.b.ID()
		}
		closed := make(chan struct{})
		go func() { defer close(closed); gone.close(t) }()
		f := fault.From(result(t, ended))
		if !errors.Is(f, fault.EdgeStreamDropped) || f.Node != peer.Short() || f.Cause == nil {
			t.Errorf("the %s's end gives %v", which, f)
		}
		s.stop()
		<-closed
	}
}

func TestTeardownOfOneSideReachesTheOther(t *testing.T) {
	a, b := newNode(t), newNode(t)
	s := newSpan(t, a, b, 64<<10)
	eventually(t, "the stream arrived", func() bool { return s.received.Read().Phase == edge.Idle })
	other := newSpan(t, a, b, 64<<10) // on the same connection: it is not touched
	s.stop()
	for _, c := range []chan error{s.out, s.in} {
		if err := result(t, c); err != nil {
			t.Errorf("a stop gives %v", err)
		}
	}
	if err := other.into.producer.Write(t.Context(), record(0, 1, 16)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other edge works", func() bool { return other.received.Read().Records == 1 })
	if b.table.Len() != 1 {
		t.Errorf("%d edges are expected", b.table.Len())
	}
}

func TestAnEdgeNobodyExpectsIsRefusedAndSaysSo(t *testing.T) {
	a, b := newNode(t), newNode(t)
	s := newSpan(t, a, b, 64<<10)
	defer s.stop()
	cfg := s.cfg
	cfg.Edge, cfg.Meter = must(id.NewEdgeID(rand.Reader)), nil
	err := edge.Out(t.Context(), cfg, newRing(t, 64<<10).consumer, must(a.OpenUni(t.Context(), b.ID(), edge.Protocol)))
	if f := fault.From(err); !errors.Is(f, fault.EdgeStreamRefused) || f.Node != b.ID().Short() {
		t.Errorf("the sender is told %v", err)
	}
	select {
	case f := <-b.refused:
		if !errors.Is(f, fault.EdgeStreamUnexpected) || f.Node != a.ID().Short() {
			t.Errorf("the receiver tells %v", f)
		}
	case <-time.After(patience):
		t.Error("nothing was told")
	}
}

// A peer that opens a stream and sends half a record costs its edge, within the
// time of a record, and nobody else's.
func TestHalfARecordFromAPeerEndsItsEdge(t *testing.T) {
	a, b := newNode(t), newNode(t)
	other := newSpan(t, a, b, 64<<10)
	cfg := other.cfg
	cfg.Edge, cfg.Peer, cfg.Meter, cfg.Within = must(id.NewEdgeID(rand.Reader)), a.ID(), new(edge.Meter), 300*time.Millisecond
	arrival := must(b.table.Expect(t.Context(), edge.Expected{Edge: cfg.Edge, Peer: a.ID(), Run: cfg.Run, Attempt: 1}))
	defer arrival.Close()
	to := must(a.OpenUni(t.Context(), b.ID(), edge.Protocol))
	must(to.Write(append(edge.Preamble{Run: cfg.Run, Edge: cfg.Edge, Attempt: 1}.Append(nil), record(0, 1, 2048)[:5000]...)))
	err := edge.In(t.Context(), cfg, must(arrival.Wait(t.Context())), newRing(t, 64<<10).producer)
	if f := fault.From(err); !errors.Is(f, fault.EdgeRecordOverdue) || f.Node != a.ID().Short() || f.Attr("got") != "5000" {
		t.Errorf("got %v", err)
	}
	select {
	case <-to.Done():
	case <-time.After(patience):
		t.Error("the sender is not told")
	}
	if err := other.into.producer.Write(t.Context(), record(0, 1, 16)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other edge works", func() bool { return other.received.Read().Records == 1 })
}

// TestEdgesComeAndGo makes and ends edges on one connection, each at another
// moment of its life: nothing is left, nothing grows.
func TestEdgesComeAndGo(t *testing.T) {
	a, b := newNode(t), newNode(t)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	var settled int
	for i := range rounds {
		s := newSpan(t, a, b, 64<<10)
		if i%3 > 0 {
			for n := range uint64(i % 7) {
				if err := s.into.producer.Write(t.Context(), record(n, 1, 2048)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if i%5 == 0 {
			eventually(t, "the stream arrived", func() bool { return s.received.Read().Phase != edge.Unused })
		}
		s.stop()
		for _, c := range []chan error{s.out, s.in} {
			if err := result(t, c); err != nil && !errors.Is(err, fault.RunInterrupted) && !errors.Is(err, fault.EdgeStreamDropped) && !errors.Is(err, fault.EdgeStreamRefused) {
				t.Errorf("round %d: %v", i, err)
			}
		}
		_ = s.into.producer.Detach()
		_ = s.into.consumer.Detach()
		_ = s.outOf.producer.Detach()
		_ = s.outOf.consumer.Detach()
		if i == 4 {
			settled = runtime.NumGoroutine()
		}
	}
	eventually(t, fmt.Sprintf("the goroutines are %d again", settled), func() bool { return runtime.NumGoroutine() <= settled+2 })
	if b.table.Len() != 0 {
		t.Errorf("%d edges are left", b.table.Len())
	}
}
