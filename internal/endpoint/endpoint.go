package endpoint

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

const component = "endpoint"

// Config says what an endpoint is. Zero times and numbers take the default.
type Config struct {
	Key       ed25519.PrivateKey
	Listen    string // host:port; port 0 takes any
	Protocols []Protocol
	Tell      func(event.Event) // must not block; nil tells nobody

	DialTimeout time.Duration // of one dial to all of a peer's addresses; default 3 s
	IdleTimeout time.Duration // silence after which a connection has ended; default 8 s, the smaller of both sides counts
	KeepAlive   time.Duration // silence after which a peer is asked for a sign of life; default 2 s
	Linger      time.Duration // how long a crossed connection is kept for streams on their way; default 5 s
	Stay        time.Duration // how long a stranger's connection lasts; default 10 s

	Connections int // accepted at once, but for addresses of permitted peers; default 1024
	Strangers   int // of those, from peers that are not permitted; default 64
	Handshakes  int // in progress at once, but for addresses of permitted peers; default 128
}

func (c Config) filled() Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, 3*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 8*time.Second)
	c.KeepAlive = cmp.Or(c.KeepAlive, 2*time.Second)
	c.Linger = cmp.Or(c.Linger, 5*time.Second)
	c.Stay = cmp.Or(c.Stay, 10*time.Second)
	c.Connections = cmp.Or(c.Connections, 1024)
	c.Strangers = cmp.Or(c.Strangers, 64)
	c.Handshakes = cmp.Or(c.Handshakes, 128)
	if c.Tell == nil {
		c.Tell = func(event.Event) {}
	}
	return c
}

// Endpoint is one UDP port that answers to one node id. All methods may be
// called at once from many goroutines.
type Endpoint struct {
	cfg       Config
	self      id.NodeID
	cert      tls.Certificate
	protocols map[string]*Protocol // by name; never changes
	socket    *net.UDPConn
	transport *quic.Transport
	listener  *quic.Listener
	refusals  refusals

	ctx    context.Context // ends, with a fault as its cause, at Close and when the socket fails
	cancel context.CancelCauseFunc
	tasks  tasks

	mu          sync.Mutex
	epoch       uint64
	permitted   map[id.NodeID][]string // addresses by peer
	known       map[netip.AddrPort]bool
	links       map[linkKey]*link
	handshaking int
	inbound     int // accepted connections
	strangers   int // of those, from peers not permitted
	number      uint64
}

// Open binds the port and serves. Faults: endpoint.address_invalid,
// endpoint.port_taken, endpoint.bind_refused, endpoint.config_invalid.
func Open(cfg Config) (*Endpoint, error) {
	cfg = cfg.filled()
	e := &Endpoint{cfg: cfg, permitted: map[id.NodeID][]string{}, known: map[netip.AddrPort]bool{}, links: map[linkKey]*link{}}
	if err := e.prepare(); err != nil {
		return nil, err
	}
	var err error
	if e.socket, err = bind(cfg.Listen); err != nil {
		return nil, err
	}
	reset, token := derivedKeys(cfg.Key)
	e.transport = &quic.Transport{
		Conn:                e.socket,
		ConnectionIDLength:  8,
		StatelessResetKey:   &reset,
		TokenGeneratorKey:   &token,
		ConnContext:         e.begin,
		VerifySourceAddress: func(net.Addr) bool { return e.crowding() },
	}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	if e.listener, err = e.transport.Listen(e.serverTLS(), e.quicConfig(e.largestLimits())); err != nil {
		return nil, fault.New(fault.EndpointBindRefused, component, "address", cfg.Listen).Because(closing(err, e.socket.Close()))
	}
	cfg.Tell(event.EndpointOpened{Node: e.self, Address: e.Addr().String()})
	if got := receiveBuffer(e.socket); got < wantedBuffer {
		cfg.Tell(event.SocketBufferRefused{Asked: wantedBuffer, Got: got, Hint: bufferHint})
	}
	e.tasks.Go(e.accept)
	e.tasks.Go(e.sweep)
	return e, nil
}

// prepare checks the configuration and makes what needs no socket.
func (e *Endpoint) prepare() error {
	flaw := func(format string, args ...any) error {
		return fault.New(fault.EndpointConfigInvalid, component, "what", fmt.Sprintf(format, args...))
	}
	if len(e.cfg.Key) != ed25519.PrivateKeySize {
		return flaw("its key has %d bytes", len(e.cfg.Key))
	}
	e.self = id.NodeIDOf(e.cfg.Key.Public().(ed25519.PublicKey))
	e.protocols = map[string]*Protocol{proof: {Name: proof, Limits: Limits{Streams: 1, Window: leastWindow}}}
	for _, p := range e.cfg.Protocols {
		p.Limits = p.Limits.filled()
		switch {
		case p.Name == "" || len(p.Name) > 200 || strings.Contains(p.Name, ";"):
			return flaw("a protocol cannot be named %q", p.Name)
		case e.protocols[p.Name] != nil:
			return flaw("the protocol %s stands twice", p.Name)
		case p.Limits.Streams < 0 || p.Limits.Streams > mostStreams || p.Limits.Window < leastWindow:
			return flaw("the protocol %s has limits of %d streams and %d bytes", p.Name, p.Limits.Streams, p.Limits.Window)
		}
		e.protocols[p.Name] = &p
	}
	var err error
	if e.cert, err = newCertificate(e.cfg.Key); err != nil {
		return flaw("no certificate can be made of its key").(*fault.Fault).Because(err) //nolint:errorlint // made above
	}
	return nil
}

// quicConfig sets no KeepAlivePeriod: nudges keep connections alive, and find
// peers that were started anew.
func (e *Endpoint) quicConfig(l Limits) *quic.Config {
	first := min(l.Window, 512<<10)
	return &quic.Config{
		HandshakeIdleTimeout:           e.cfg.DialTimeout,
		MaxIdleTimeout:                 e.cfg.IdleTimeout,
		InitialStreamReceiveWindow:     uint64(first),
		MaxStreamReceiveWindow:         uint64(l.Window),
		InitialConnectionReceiveWindow: uint64(first + first/2),
		MaxConnectionReceiveWindow:     uint64(l.Window + l.Window/2),
		MaxIncomingStreams:             int64(l.Streams),
		MaxIncomingUniStreams:          int64(l.Streams) + 1, // the hello
		EnableDatagrams:                true,
	}
}

// largestLimits are those of accepted connections, see Limits.Window.
func (e *Endpoint) largestLimits() Limits {
	var l Limits
	for _, p := range e.protocols {
		l.Streams = max(l.Streams, p.Limits.Streams)
		l.Window = max(l.Window, p.Limits.Window)
	}
	return l
}

// ID is the id the endpoint answers to.
func (e *Endpoint) ID() id.NodeID { return e.self }

// Addr is the address the socket is bound to; its host is unspecified where
// Listen named none.
func (e *Endpoint) Addr() netip.AddrPort { return addrPort(e.socket.LocalAddr()) }

// Done is closed when the endpoint can no longer be used: after Close, or
// when its socket has failed.
func (e *Endpoint) Done() <-chan struct{} { return e.ctx.Done() }

// Err is nil as long as the endpoint can be used, then
// endpoint.socket_failed or endpoint.socket_closed.
func (e *Endpoint) Err() error { return context.Cause(e.ctx) }

// Close ends all connections and waits until everything the endpoint started
// has ended, handlers too. When ctx ends before, it returns
// endpoint.close_overdue; the socket is closed all the same. It may be called
// again.
func (e *Endpoint) Close(ctx context.Context) error {
	began := time.Now()
	e.mu.Lock()
	e.cancel(fault.New(fault.EndpointSocketClosed, component))
	conns := e.all()
	e.mu.Unlock()
	_ = e.listener.Close()
	for _, c := range conns {
		c.close(codeClosing)
	}
	_ = e.transport.Close()
	_ = e.socket.Close()
	select {
	case <-e.tasks.ended():
		return nil
	case <-ctx.Done():
		return fault.New(fault.EndpointCloseOverdue, component,
			"waited", time.Since(began).Round(time.Millisecond), "count", e.tasks.count.Load()).Because(context.Cause(ctx))
	}
}

// fail ends an endpoint whose socket no longer works.
func (e *Endpoint) fail(err error) {
	if e.ctx.Err() != nil {
		return
	}
	f := fault.New(fault.EndpointSocketFailed, component, "address", e.Addr()).Because(err)
	e.cancel(f)
	e.cfg.Tell(event.EndpointFailed{Fault: f})
}

// tasks are the goroutines of an endpoint. The first ones start before any
// other method can be called, and the others by one that is counted or under
// the endpoint's lock while it is not closed.
type tasks struct {
	group sync.WaitGroup
	count atomic.Int64
}

func (t *tasks) Go(f func()) {
	t.begin()
	go func() {
		defer t.end()
		f()
	}()
}

func (t *tasks) begin() {
	t.count.Add(1)
	t.group.Add(1)
}

func (t *tasks) end() {
	t.count.Add(-1)
	t.group.Done()
}

func (t *tasks) ended() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		t.group.Wait()
		close(c)
	}()
	return c
}
