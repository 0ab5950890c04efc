package member

import (
	"context"
	"errors"
	"io"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/memberlist"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

const (
	component = "member"

	// mostMembers bounds the table while SetPeers has not been called.
	mostMembers = 4096
	// badScore of 0 to 7 is where a member's own troubles are the likelier
	// reason for what it sees. One lost peer, with nobody to ask about it,
	// costs 1 to 3.
	badScore = 4
)

var errNotCounted = errors.New("it is none of the peers")

// Config says who the member is and whom it tells.
type Config struct {
	Self    id.NodeID
	Boot    id.BootID
	Pool    string  // label: members of another pool are not heard; may be empty, at most 255 bytes
	Profile Profile // the same in all members
	Epoch   uint64  // see SetEpoch

	// Facts is called with each fact, in order, by one goroutine of the
	// member that holds no lock: it may call View and Health. While it runs
	// the library goes on and the view is not read.
	Facts func(Fact)
	// Read is called by the same goroutine after each reading of the whole
	// view, when its facts have been told.
	Read func(at time.Time)
	Tell func(event.Event) // must not block
	Log  func(line string) // what the library logs; must not block
}

func (c Config) filled() Config {
	if c.Facts == nil {
		c.Facts = func(Fact) {}
	}
	if c.Read == nil {
		c.Read = func(time.Time) {}
	}
	if c.Tell == nil {
		c.Tell = func(event.Event) {}
	}
	return c
}

// Member is one SWIM participant. All methods may be called at once from many
// goroutines.
type Member struct {
	cfg       Config
	ctx       context.Context // until Close
	cancel    context.CancelCauseFunc
	transport *transport
	wake      chan struct{} // the view may have changed
	kick      chan struct{} // a peer may be missing
	tasks     tasks
	ended     chan struct{} // when all has
	updates   sync.Mutex    // one change of the meta at a time

	mu      sync.Mutex // never held while the library is called: it calls back under its own
	begun   bool
	library *memberlist.Memberlist // nil until Start
	deaf    func()                 // ends the metrics' calls
	table   *table
	meta    meta // what to say next
	left    bool // Leave was called
	unread  *fault.Fault
}

// New makes a member that takes streams and packets, and does nothing with
// them before Start: an endpoint wants its protocols when it is opened.
// Faults: member.config_invalid.
func New(cfg Config) (*Member, error) {
	flaw := ""
	switch {
	case cfg.Self.IsZero():
		flaw = "it has no node id"
	case cfg.Boot.IsZero():
		flaw = "it has no boot id"
	case len(cfg.Pool) > memberlist.LabelMaxSize:
		flaw = "its pool's name is too long"
	case !cfg.Profile.sound():
		flaw = "its profile " + cfg.Profile.Name + " cannot be run with"
	}
	if flaw != "" {
		return nil, fault.New(fault.MemberConfigInvalid, component, "what", flaw)
	}
	m := &Member{
		cfg: cfg.filled(), wake: make(chan struct{}, 1), kick: make(chan struct{}, 1), ended: make(chan struct{}),
		table: newTable(), meta: meta{boot: cfg.Boot, epoch: cfg.Epoch},
	}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	m.transport = newTransport(m.ctx, cfg.Self)
	return m, nil
}

// Serve is the protocol's handler of a stream that a peer opened. When it has
// returned the stream is to end: what was written still arrives.
func (m *Member) Serve(ctx context.Context, peer id.NodeID, s Stream) {
	m.transport.serve(ctx, peer, s)
}

// Datagram is the protocol's handler of a datagram. It never blocks; b is
// kept.
func (m *Member) Datagram(peer id.NodeID, b []byte) { m.transport.receive(peer, b) }

// Start begins to take part, alone until Join. Faults: member.config_invalid
// (a second start), member.start_refused, member.participant_closed.
func (m *Member) Start(n Network) error {
	if !m.tasks.begin() {
		return m.closed()
	}
	defer m.tasks.end()
	m.mu.Lock()
	again := m.begun
	m.begun = true
	m.mu.Unlock()
	if again {
		return fault.New(fault.MemberConfigInvalid, component, "what", "it is started twice")
	}
	m.transport.network = n
	deaf := listen(m.cfg.Self.String(), m.wakeUp)
	library, err := memberlist.Create(m.libraryConfig())
	if err != nil {
		deaf()
		return fault.New(fault.MemberStartRefused, component).Because(err)
	}
	m.mu.Lock()
	m.library, m.deaf = library, deaf
	m.mu.Unlock()
	m.tasks.start(m.watch)
	m.tasks.start(m.rejoin)
	return nil
}

func (m *Member) libraryConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	m.cfg.Profile.apply(c)
	c.Name = m.cfg.Self.String()
	c.RequireNodeNames = true
	c.Transport = m.transport
	c.Label = m.cfg.Pool
	c.UDPBufferSize = packetSize
	c.EnableCompression = false // the read-back reads plain bytes, and views are small
	c.AdvertiseAddr, c.AdvertisePort = nowhere, nowherePort
	c.Delegate, c.Events, c.Alive = ears{m}, ears{m}, ears{m}
	c.MetricLabels = []metrics.Label{{Name: metricLabel, Value: c.Name}}
	c.LogOutput = io.Discard
	if m.cfg.Log != nil {
		c.LogOutput = nil
		c.Logger = log.New(lines(m.cfg.Log), "", 0)
	}
	return c
}

// View is the table as it is now.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.view()
}

// Health is how well the member itself does.
type Health struct {
	Score  int          // the library's: 0 is well, 7 the worst; it stretches its own timeouts with it
	Bad    bool         // what this member sees says more of itself than of others
	Read   time.Time    // when the view was last read; zero: never
	Fault  *fault.Fault // why the latest reading failed; nil where it did not
	Lost   uint64       // packets that were not sent or not taken, since New
	Closed bool         // not started yet, or closed
}

// Health is the member's own, see Health.
func (m *Member) Health() Health {
	m.mu.Lock()
	library := m.library
	h := Health{Read: m.table.read, Fault: m.unread, Lost: m.transport.lost.Load()}
	m.mu.Unlock()
	h.Closed = library == nil || m.ctx.Err() != nil
	if library != nil {
		h.Score = library.GetHealthScore()
	}
	h.Bad = h.Score >= badScore
	return h
}

// Close ends the member without a word to the others, see Leave, and waits
// for what it started; it may be called again. The endpoint's handlers return.
// Faults: member.close_overdue, where ctx ends first.
func (m *Member) Close(ctx context.Context) error {
	began := time.Now()
	if m.tasks.shut() {
		go m.end()
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fault.New(fault.MemberCloseOverdue, component, "waited", time.Since(began).Round(time.Millisecond)).Because(context.Cause(ctx))
	}
}

func (m *Member) end() {
	m.cancel(m.closed())
	m.tasks.wait()
	m.mu.Lock()
	library, deaf := m.library, m.deaf
	m.mu.Unlock()
	if library != nil {
		deaf()
		_ = library.Shutdown() // it fails only by the transport, which does not
	}
	m.transport.conns.shut()
	m.transport.conns.wait()
	close(m.ended)
}

func (m *Member) closed() error { return fault.New(fault.MemberClosed, component) }

// wakeUp has the view read soon.
func (m *Member) wakeUp() { nudge(m.wake) }

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// address is how the library is told whom to dial.
func address(node id.NodeID) string {
	return node.String() + "/" + nowhere + ":1"
}

// shorts lists nodes for people.
func shorts(nodes []id.NodeID) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = n.Short()
	}
	return strings.Join(words, ", ")
}
