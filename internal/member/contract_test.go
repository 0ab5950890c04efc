package member

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"

	"muster/internal/id"
)

// These tests pin what the read-back needs of the library: the form of a
// push/pull, that the answer to one holds the true states, that asking changes
// nothing, and the counters that wake the reader. One of them failing after an
// update of memberlist means that this package no longer sees suspects.

// The library's message types, in the order of its protocol.
const (
	suspectMessage = 3
	aliveMessage   = 4
	deadMessage    = 5
)

func numbered(i byte) (n id.NodeID, b id.BootID) {
	n[0], b[0] = i, i
	return n, b
}

// lonely starts a member whose network reaches nobody.
func lonely(t testing.TB, change func(*Config)) *Member {
	t.Helper()
	cfg := Config{Pool: "tales", Profile: WAN(), Epoch: 7}
	cfg.Self, cfg.Boot = numbered(255)
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Start(Network{
		Open: func(context.Context, id.NodeID) (Stream, error) { return nil, errors.New("nobody is there") },
		Send: func(id.NodeID, []byte) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

// gossip gives a member a message as if it had come in a packet.
func gossip(t testing.TB, m *Member, kind byte, message any) {
	t.Helper()
	packet := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(packet, &codec.MsgpackHandle{}).Encode(message); err != nil {
		t.Fatal(err)
	}
	labelled, err := memberlist.AddLabelHeaderToPacket(packet.Bytes(), m.cfg.Pool)
	if err != nil {
		t.Fatal(err)
	}
	m.Datagram(id.NodeID{1}, labelled)
}

func told(n id.NodeID, b id.BootID, incarnation uint32) any {
	return map[string]any{
		"Incarnation": incarnation, "Node": n.String(), "Addr": net.ParseIP(nowhere).To4(), "Port": nowherePort,
		"Meta": meta{boot: b, epoch: 3}.encode(), "Vsn": []byte{1, 5, 2, 0, 0, 0},
	}
}

func doubt(n id.NodeID, from id.NodeID, incarnation uint32) any {
	return map[string]any{"Incarnation": incarnation, "Node": n.String(), "From": from.String()}
}

// four has one other node in each state.
func four(t testing.TB, m *Member) map[id.NodeID]State {
	t.Helper()
	want := map[id.NodeID]State{m.cfg.Self: Alive}
	for i, s := range []State{Alive, Suspect, Dead, Left} {
		n, b := numbered(byte(i + 1))
		want[n] = s
		gossip(t, m, aliveMessage, told(n, b, 4))
		pollUntil(t, func() bool { r, _ := m.View().Row(n); return r.State == Alive })
		switch s {
		default: // as it is
		case Suspect:
			gossip(t, m, suspectMessage, doubt(n, m.cfg.Self, 4))
		case Dead:
			gossip(t, m, deadMessage, doubt(n, m.cfg.Self, 4))
		case Left:
			gossip(t, m, deadMessage, doubt(n, n, 4))
		}
		pollUntil(t, func() bool { r, _ := m.View().Row(n); return r.State == s })
	}
	return want
}

func pollUntil(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to be")
		}
	}
}

func TestTheViewHoldsTrueStates(t *testing.T) {
	// No poll within the test: the counters alone wake the reader.
	m := lonely(t, func(c *Config) { c.Profile.Poll = time.Hour })
	want := four(t, m)
	v := m.View()
	if len(v.Rows) != len(want) {
		t.Fatalf("the view has %d rows", len(v.Rows))
	}
	for _, r := range v.Rows {
		inc, epoch := uint32(4), uint64(3)
		if r.Node == m.cfg.Self {
			inc, epoch = 1, 7
		}
		if r.State != want[r.Node] || r.Incarnation != inc || r.Epoch != epoch || r.Boot.IsZero() || r.Since.IsZero() {
			t.Errorf("row %+v, want %s", r, want[r.Node])
		}
	}
	// The reason for all of this.
	for _, n := range m.library.Members() {
		if n.State != memberlist.StateAlive {
			t.Errorf("the library now shows state %d by itself: read it there", n.State)
		}
	}
}

func TestAskingChangesNothing(t *testing.T) {
	m := lonely(t, func(c *Config) { c.Profile.Poll = time.Millisecond })
	four(t, m)
	before, health := m.View(), m.library.GetHealthScore()
	pollUntil(t, func() bool { return m.View().Read.Sub(before.Read) > 50*time.Millisecond })
	after := m.View()
	if after.Sequence != before.Sequence || !slices.Equal(after.Rows, before.Rows) || m.library.GetHealthScore() != health {
		t.Errorf("reading made\n%+v of\n%+v", after, before)
	}
}

// strictly decodes one message of the library and holds it to the keys that
// this package knows, no more and no fewer.
func strictly(t testing.TB, r io.Reader) (head map[string]any, rows []map[string]any) {
	t.Helper()
	in := bufio.NewReader(r)
	if kind, err := in.ReadByte(); err != nil || kind != pushPull {
		t.Fatalf("a push/pull begins with %d, %v", kind, err)
	}
	handle := &codec.MsgpackHandle{}
	decoder := codec.NewDecoder(in, handle)
	decode := func(want ...string) map[string]any {
		got := map[string]any{}
		if err := decoder.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
			t.Fatalf("the library sends %q, this package reads %q", keys, want)
		}
		return got
	}
	head = decode("Join", "Nodes", "UserStateLen")
	nodes, ok := head["Nodes"].(int64)
	if !ok {
		t.Fatalf("a count is %T", head["Nodes"])
	}
	for range nodes {
		rows = append(rows, decode("Addr", "Incarnation", "Meta", "Name", "Port", "State", "Vsn"))
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Fatalf("%d bytes follow, %v", len(rest), err)
	}
	return head, rows
}

func TestTheAnswerHasTheFormThatIsRead(t *testing.T) {
	m := lonely(t, nil)
	four(t, m)
	ours, theirs := net.Pipe()
	if !m.transport.offer(m.ctx, theirs) {
		t.Fatal("the library takes no stream")
	}
	if err := ask(ours, m.cfg.Pool); err != nil {
		t.Fatal(err)
	}
	head, rows := strictly(t, ours)
	if head["Join"] != false || head["UserStateLen"] != int64(0) || len(rows) != 5 {
		t.Errorf("head %v, %d rows", head, len(rows))
	}
}

// The request is what the library itself sends, without nodes.
func TestTheQuestionHasTheFormOfTheLibrary(t *testing.T) {
	m := lonely(t, nil) // nothing uses its network before it joins somebody
	ours, theirs := net.Pipe()
	sent := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(ours)
		sent <- b
	}()
	var opened atomic.Bool
	m.transport.network.Open = func(context.Context, id.NodeID) (Stream, error) {
		if opened.Swap(true) {
			return nil, errors.New("one is enough")
		}
		return heard{theirs}, nil
	}
	n, _ := numbered(1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = m.Join(ctx, []id.NodeID{n}) // nobody answers
	_ = theirs.Close()
	labelled := <-sent
	b, label, err := memberlist.RemoveLabelHeaderFromPacket(labelled)
	if err != nil || label != m.cfg.Pool {
		t.Fatalf("the label is %q, %v", label, err)
	}
	head, rows := strictly(t, bytes.NewReader(b))
	if head["Join"] != true || len(rows) != 1 {
		t.Errorf("head %v, %d rows", head, len(rows))
	}

	asked := &written{}
	if err := ask(asked, m.cfg.Pool); err != nil {
		t.Fatal(err)
	}
	b, label, err = memberlist.RemoveLabelHeaderFromPacket(asked.Bytes())
	if err != nil || label != m.cfg.Pool {
		t.Fatalf("the label is %q, %v", label, err)
	}
	head, rows = strictly(t, bytes.NewReader(b))
	if head["Join"] != false || head["UserStateLen"] != int64(0) || len(rows) != 0 {
		t.Errorf("head %v, %d rows", head, len(rows))
	}
}

// heard is a stream whose answer never comes.
type heard struct{ net.Conn }

func (h heard) Cancel(uint32)            { _ = h.Conn.Close() }
func (h heard) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A change of the epoch that crosses a refutation can be lost in the library.
func TestALostChangeIsToldAgain(t *testing.T) {
	m := lonely(t, func(c *Config) { c.Profile.Poll = time.Millisecond })
	pollUntil(t, func() bool { r, _ := m.View().Row(m.cfg.Self); return r.Epoch == 7 })
	m.mu.Lock()
	m.meta.epoch = 8
	m.mu.Unlock()
	pollUntil(t, func() bool { r, _ := m.View().Row(m.cfg.Self); return r.Epoch == 8 && r.Incarnation == 1 })
}

// The library must not hold them either: it would probe them, and spread
// doubts of nodes that this one has not been told of yet.
func TestTheLibraryHoldsOnlyPeers(t *testing.T) {
	m := lonely(t, nil)
	peer, boot := numbered(1)
	stranger, strange := numbered(2)
	m.SetPeers([]id.NodeID{peer})
	for incarnation := uint32(1); incarnation <= 3; incarnation++ {
		gossip(t, m, aliveMessage, told(stranger, strange, incarnation))
		gossip(t, m, aliveMessage, told(peer, boot, incarnation))
		pollUntil(t, func() bool { r, _ := m.View().Row(peer); return r.Incarnation == incarnation })
	}
	rows, err := m.readBack()
	if err != nil || len(rows) != 2 || slices.ContainsFunc(rows, func(r row) bool { return r.Name == stranger.String() }) {
		t.Errorf("it holds %+v, %v", rows, err)
	}
}

func TestCloseWaitsForStreams(t *testing.T) {
	m := lonely(t, nil)
	s := &silent{cancelled: make(chan struct{}), read: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		m.Serve(context.Background(), id.NodeID{1}, s)
		close(served)
	}()
	<-s.read
	if err := m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !s.left.Load() {
		t.Error("the library still reads a stream of a closed member")
	}
	<-served
}

// silent is a stream on which nothing comes, and whose reader is slow to see
// that it has been cancelled.
type silent struct {
	net.Conn
	cancel          sync.Once
	cancelled, read chan struct{}
	left            atomic.Bool
}

func (s *silent) Cancel(uint32)               { s.cancel.Do(func() { close(s.cancelled) }) }
func (s *silent) SetDeadline(time.Time) error { return nil }
func (s *silent) Read([]byte) (int, error) {
	close(s.read)
	<-s.cancelled
	time.Sleep(20 * time.Millisecond)
	s.left.Store(true)
	return 0, io.ErrClosedPipe
}

type written struct {
	bytes.Buffer
	net.Conn
}

func (w *written) Write(b []byte) (int, error) { return w.Buffer.Write(b) }
func (w *written) Read(b []byte) (int, error)  { return w.Buffer.Read(b) }

func TestTheLibrarysNumbers(t *testing.T) {
	for state, number := range map[memberlist.NodeStateType]int{
		memberlist.StateAlive: 0, memberlist.StateSuspect: 1, memberlist.StateDead: 2, memberlist.StateLeft: 3,
	} {
		if int(state) != number {
			t.Errorf("state %d was %d", state, number)
		}
	}
	if stateOf(4) != Unknown || stateOf(-1) != Unknown {
		t.Error("a state that is none is read as one")
	}
}

func FuzzAnswer(f *testing.F) {
	m := lonely(f, nil)
	rows, err := m.readBack()
	if err != nil || len(rows) != 1 {
		f.Fatal(rows, err)
	}
	whole := bytes.NewBuffer([]byte{pushPull})
	encoder := codec.NewEncoder(whole, &codec.MsgpackHandle{})
	for _, v := range []any{exchange{Nodes: 2}, rows[0], rows[0]} {
		if err := encoder.Encode(v); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(whole.Bytes())
	f.Add([]byte{pushPull})
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := answer(bytes.NewReader(b))
		if err != nil {
			return
		}
		newTable().take(rows, id.NodeID{1}, time.Now())
	})
}

// What comes from a peer in a packet ends in the library and in the table.
func FuzzDatagram(f *testing.F) {
	n, b := numbered(1)
	for kind, message := range map[byte]any{aliveMessage: told(n, b, 2), suspectMessage: doubt(n, n, 2), deadMessage: doubt(n, n, 2)} {
		packet := bytes.NewBuffer([]byte{kind})
		if err := codec.NewEncoder(packet, &codec.MsgpackHandle{}).Encode(message); err != nil {
			f.Fatal(err)
		}
		f.Add(packet.Bytes())
	}
	m := lonely(f, func(c *Config) { c.Pool = "" })
	f.Fuzz(func(t *testing.T, b []byte) {
		m.Datagram(id.NodeID{1}, bytes.Clone(b))
		if _, err := m.readBack(); err != nil {
			t.Fatal(err)
		}
		// The library's goroutine has answered and not ended. On one processor a
		// loop as tight as this one keeps it from that, and 128 are its most.
		runtime.Gosched()
	})
}
