package orch

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/store"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait is the longest that a test waits for what must come to pass.
const wait = 20 * time.Second

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func idOf(key ed25519.PrivateKey) id.NodeID { return id.NodeIDOf(key.Public().(ed25519.PublicKey)) }

func newBoot(t testing.TB) id.BootID {
	t.Helper()
	b, err := id.NewBootID(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// events keeps what was told.
type events struct {
	mu  sync.Mutex
	all []event.Event
}

func (e *events) tell(ev event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// told returns the events of one type, oldest first.
func told[E event.Event](e *events) []E {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []E
	for _, ev := range e.all {
		if is, ok := ev.(E); ok {
			out = append(out, is)
		}
	}
	return out
}

// until polls for what must come to pass.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("%s did not come to pass within %s", what, wait)
}

// spelling is a tokenizer of as many tokens as the prompt has bytes.
type spelling struct{}

func (spelling) tokens(_ context.Context, text string) ([]int32, error) {
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = int32(text[i])
	}
	return ids, nil
}

// lastToken ends a generation.
const lastToken = 1000

// spell gives an orchestrator a vocabulary in which every token is its number.
func spell(o *Orch) {
	v := &wire.Vocab{EOG: []int32{lastToken}, BOS: -1}
	for i := range 1280 {
		v.Pieces = append(v.Pieces, fmt.Appendf(nil, "%d ", i))
	}
	o.speak(spelling{}, v)
}

// world is an orchestrator with the nodes of its pool.
type world struct {
	*Orch
	t      testing.TB
	cfg    Config
	events *events
	nodes  []*fakeNode
}

// newWorld starts an orchestrator for so many nodes, and not the nodes.
func newWorld(t testing.TB, nodes int, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, events: &events{}}
	dir := t.TempDir()
	w.cfg = Config{
		KeyPath: filepath.Join(dir, "key"), DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Version: "test",
		Pool: store.Pool{Name: "test", Nodes: []store.Node{}}, Profile: "local", Tell: w.events.tell,
		Recipe: wire.Recipe{Context: 256, Slots: 1, Chunk: 16},
	}
	if os.Getenv("MUSTER_TEST_VERBOSE") != "" {
		began := time.Now()
		w.cfg.Tell = func(e event.Event) {
			w.events.tell(e)
			t.Logf("%6.3f %s %+v", time.Since(began).Seconds(), e.Name(), e)
		}
	}
	for i := range nodes {
		n := &fakeNode{t: t, key: newKey(t), name: fmt.Sprintf("n%d", i+1)}
		w.nodes = append(w.nodes, n)
		w.cfg.Pool.Nodes = append(w.cfg.Pool.Nodes, store.Node{ID: idOf(n.key), Name: n.name})
	}
	for _, c := range change {
		c(&w.cfg)
	}
	w.start()
	return w
}

// start starts the orchestrator, which ends with the test.
func (w *world) start() {
	w.t.Helper()
	o, err := start(w.t.Context(), w.cfg, spell)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Orch = o
	w.t.Cleanup(func() { w.end(o) })
}

func (w *world) end(o *Orch) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := o.Close(ctx); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// boot starts all nodes.
func (w *world) boot() *world {
	w.t.Helper()
	for _, n := range w.nodes {
		n.boot(w.Orch)
	}
	return w
}

// serving waits until requests are taken, by another run than the one before.
func (w *world) serving(former id.RunID) id.RunID {
	w.t.Helper()
	var now id.RunID
	until(w.t, "serving", func() bool {
		s := w.session.Load()
		if s == nil || s.key.Run == former {
			return false
		}
		now = s.key.Run
		return true
	})
	return now
}

// say answers a prompt of five tokens with so many, greedily.
func (w *world) say(most int) (string, infer.Result, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	var said string
	res, err := w.Generate(ctx, Request{Prompt: "hello", Sampling: infer.Greedy(), MaxTokens: most},
		func(text string, _ wire.Answer) error {
			said += text
			return nil
		})
	return said, res, err
}

// mustFault checks that an error is a fault of a code.
func mustFault(t testing.TB, err error, code fault.Code) *fault.Fault {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got %v, want %s", err, code)
	}
	return fault.From(err)
}
