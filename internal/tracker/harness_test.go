package tracker_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit/capture"
	"muster/internal/tracker"
	"muster/internal/tracker/api"
	"muster/internal/tracker/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func nodeOf(n byte) id.NodeID { return id.NodeIDOf(keyOf(n).Public().(ed25519.PublicKey)) }

func digestOf(n byte) admit.Digest { return admit.Digest(bytes.Repeat([]byte{n}, 32)) }

var (
	trackerNode = nodeOf(200)
	theRun      = id.RunID{0: 1, 6: 0x70, 8: 0x80}
)

// stages of a model with eight layers, by their node.
var layersOf = map[byte][2]int{1: {0, 3}, 2: {3, 6}, 3: {6, 8}}

// bindingOf is what is wanted of node n under its boot n.
func bindingOf(n byte) admit.Binding {
	b := admit.Binding{
		Purpose: admit.ForStage, Run: theRun, Attempt: 1, Pool: "home", Epoch: 3,
		Orchestrator: trackerNode, Node: nodeOf(n), Boot: id.BootID{n},
		Revision: digestOf(10), Layers: layersOf[n], Depth: 8,
		Digests: admit.Digests{Slice: digestOf(11), Recipe: digestOf(13), Backend: digestOf(14)},
	}
	if n == 1 {
		b.Embedding = digestOf(12)
	}
	return b
}

// wantOf is what the owner of the tests wants of node n.
func wantOf(n byte) admit.Want {
	return admit.Want{Binding: bindingOf(n), Context: 1024, Slots: 4, ResidentBytes: 1 << 30}
}

// reportOf is a sound report of node n.
func reportOf(n byte, c admit.Challenge, sequence uint64) admit.Report {
	r := admit.Report{
		Schema: admit.Schema, Binding: bindingOf(n), Challenge: c, Sequence: sequence,
		Capacity: admit.Capacity{Context: 1024, Slots: 4, ResidentBytes: 1 << 30},
		Speed:    admit.Speed{TokenMicros: 900, ChunkMicros: 20_000, ChunkTokens: 64},
	}
	figures := map[string][2]float64{
		probe.Stepwise: {0.02, 0.05}, probe.Sensitive: {0.7, 0}, probe.Full: {1024, 1024},
		probe.Memory: {1 << 30, 1 << 30}, probe.Decode: {900, 0}, probe.Prefill: {312.5, 0},
	}
	for _, name := range probe.Required(false, r.Last()) {
		r.Checks = append(r.Checks, probe.Check{Name: name, Passed: true, Got: figures[name][0], Limit: figures[name][1]})
	}
	return r
}

func theStages() admit.Run {
	r := admit.Run{ID: theRun, Revision: digestOf(10), Depth: 8}
	for n := byte(1); n <= 3; n++ {
		r.Stages = append(r.Stages, admit.Stage{Name: fmt.Sprintf("n%d", n), Node: nodeOf(n), Boot: id.BootID{n}, Attempt: 1, Layers: layersOf[n]})
	}
	return r
}

// owner wants the stages of theStages, unless it is told otherwise.
type owner struct {
	mu     sync.Mutex
	wanted func(ctx context.Context, r admit.Report) (admit.Want, error)
	told   []string
}

func (o *owner) Wanted(ctx context.Context, r admit.Report) (admit.Want, error) {
	o.mu.Lock()
	wanted := o.wanted
	o.mu.Unlock()
	if wanted != nil {
		return wanted(ctx, r)
	}
	for n := byte(1); n <= 3; n++ {
		if r.Node == nodeOf(n) {
			return wantOf(n), nil
		}
	}
	return admit.Want{}, nil
}

func (o *owner) want(f func(ctx context.Context, r admit.Report) (admit.Want, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wanted = f
}

func (o *owner) Tell(e admit.Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e := e.(type) {
	case admit.LeaseGranted:
		o.told = append(o.told, fmt.Sprintf("granted %d", e.Lease.Boot[0]))
	case admit.LeaseEnded:
		o.told = append(o.told, fmt.Sprintf("ended %d %s", e.Lease.Boot[0], e.Why.Code))
	case admit.NodeRefused:
		o.told = append(o.told, "refused "+string(e.Why.Code))
	}
}

// heard returns what was told since the last call.
func (o *owner) heard() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.told
	o.told = nil
	return told
}

// bench is a tracker with nodes that reach it by streams in memory.
type bench struct {
	t        testing.TB
	owner    *owner
	tracker  *tracker.Tracker
	requests capture.Requests
	group    sync.WaitGroup
	sequence uint64
}

func newBench(t testing.TB, change ...func(*tracker.Config)) *bench {
	t.Helper()
	b := &bench{t: t, owner: &owner{}}
	began := time.Now()
	c := tracker.Config{Owner: b.owner, Now: func() time.Duration { return time.Since(began) }}
	for _, f := range change {
		f(&c)
	}
	b.tracker = tracker.New(c)
	t.Cleanup(b.group.Wait)
	return b
}

// memory is one end of a stream in memory.
type memory struct{ net.Conn }

func (m memory) CloseWrite() error { return m.Close() }
func (m memory) Cancel(uint32)     { _ = m.Close() }

// open opens a stream on which peer asks; what the peer writes is served until
// it ends.
func (b *bench) open(ctx context.Context, peer id.NodeID) net.Conn {
	here, there := net.Pipe()
	serve := b.requests.Tap(b.tracker.Serve)
	b.group.Go(func() {
		serve(ctx, peer, memory{there})
		_ = there.Close()
	})
	return here
}

// node is the client of node n.
func (b *bench) node(n byte) *client.Client {
	return client.New(nodeOf(n), trackerNode, func(context.Context) (api.Stream, error) {
		return memory{b.open(b.t.Context(), nodeOf(n))}, nil
	})
}

// challenge asks for a challenge of node n.
func (b *bench) challenge(n byte) admit.Challenge {
	b.t.Helper()
	a, err := b.node(n).Challenge(b.t.Context(), id.BootID{n})
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Challenge
}

// report is a sound report of node n for a challenge.
func (b *bench) report(n byte, c admit.Challenge) admit.Report {
	b.sequence++
	return reportOf(n, c, b.sequence)
}

// register sends a report of node n.
func (b *bench) register(n byte, r admit.Report) (api.LeaseAnswer, error) {
	b.t.Helper()
	s, f := admit.Sign(keyOf(n), r)
	if f != nil {
		b.t.Fatal(f)
	}
	return b.node(n).Register(b.t.Context(), s)
}

// admit takes node n to a lease.
func (b *bench) admit(n byte) api.LeaseAnswer {
	b.t.Helper()
	l, err := b.register(n, b.report(n, b.challenge(n)))
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func renewal(n byte, l admit.Challenge) api.RenewRequest {
	return api.RenewRequest{Boot: id.BootID{n}, Lease: l, Digests: bindingOf(n).Digests}
}

// raw writes bytes on a stream of peer and returns all that is answered.
func (b *bench) raw(peer id.NodeID, sent string) string {
	b.t.Helper()
	s := b.open(b.t.Context(), peer)
	defer func() { _ = s.Close() }()
	b.group.Go(func() { _, _ = io.WriteString(s, sent) }) // the tracker may stop reading
	got, err := io.ReadAll(s)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		b.t.Fatal(err)
	}
	return string(got)
}

// answer is what came of one request, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask makes one request as peer.
func (b *bench) ask(peer id.NodeID, method, path, body string) answer {
	b.t.Helper()
	sent := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: tracker\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(b.raw(peer, sent))), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, got}
}

// wantCode fails where err is not a fault of code.
func wantCode(t testing.TB, err error, code fault.Code) {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Errorf("the error is %v, want %s", err, code)
	}
}
