package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/control"
	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/machine"
	"muster/internal/member"
	"muster/internal/testkit/capture"
	"muster/internal/testkit/fakeworker"
	"muster/internal/tracker"
	"muster/internal/tracker/api"
	"muster/internal/weights"
	"muster/internal/wire/controlpb"
)

func TestMain(m *testing.M) {
	fakeworker.Main()
	goleak.VerifyTestMain(m)
}

// wait is the longest that a test waits for what must come to pass.
const wait = 30 * time.Second

// orchestrator is a scripted one: it acknowledges every node that it was told
// of, remembers what is reported and orders what a test says.
type orchestrator struct {
	t        testing.TB
	endpoint *endpoint.Endpoint
	control  *control.Caller
	member   *member.Member
	boot     id.BootID
	key      ed25519.PrivateKey
	edges    *edge.Table
	tracker  *tracker.Tracker
	away     atomic.Bool      // the tracker answers nobody
	missed   atomic.Int64     // calls meanwhile
	rules    admit.Config     // of the tracker
	asked    capture.Requests // of the tracker
	model    []byte           // published; nil is the built-in one
	probe    []byte           // of it; nil: nobody knows
	onReport func(*controlpb.Report)
	mute     bool // takes no part in SWIM

	mu      sync.Mutex
	nodes   map[id.NodeID][]string // who has said hello, where
	refusal *fault.Fault           // of hellos
	deaf    *fault.Fault           // of reports
	reports map[id.NodeID][]*controlpb.Report
	want    func(*admit.Want) // changes what is wanted of every report; nil leaves it as reported
	granted []admit.Lease
	reads   int // streams of weights
	hellos  int
	changed chan struct{}
}

func newOrchestrator(t testing.TB, change ...func(*orchestrator)) *orchestrator {
	t.Helper()
	o := &orchestrator{
		t: t, nodes: map[id.NodeID][]string{}, reports: map[id.NodeID][]*controlpb.Report{}, changed: make(chan struct{}),
		edges: edge.NewTable(edge.TableConfig{}), key: newKey(t),
	}
	for _, c := range change {
		c(o)
	}
	o.start("127.0.0.1:0")
	return o
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (o *orchestrator) start(listen string) {
	o.t.Helper()
	var err error
	if o.boot, err = id.NewBootID(rand.Reader); err != nil {
		o.t.Fatal(err)
	}
	self := id.NodeIDOf(o.key.Public().(ed25519.PublicKey))
	if o.member, err = member.New(member.Config{Self: self, Boot: o.boot, Pool: "test", Profile: member.Local(), Facts: func(member.Fact) {}}); err != nil {
		o.t.Fatal(err)
	}
	m := o.member
	o.newTracker()
	track := o.asked.Tap(o.track)
	protocols := []endpoint.Protocol{
		{Name: control.Protocol, Open: true, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			control.Serve(ctx, peer, s, o.handle)
		}},
		{Name: edge.Protocol, Uni: func(ctx context.Context, peer id.NodeID, r endpoint.Receiver) { o.edges.Serve(ctx, peer, r) }},
		{Name: weights.Protocol, Bidi: func(ctx context.Context, _ id.NodeID, s endpoint.Stream) { o.serveWeights(ctx, s) }},
		{Name: api.Protocol, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			if o.away.Load() {
				o.missed.Add(1)
				s.Cancel(1)
				return
			}
			track(ctx, peer, s)
		}},
		{Name: member.Protocol, Datagram: m.Datagram, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) { m.Serve(ctx, peer, s) }},
	}
	if o.mute {
		protocols = protocols[:len(protocols)-1]
	}
	o.endpoint, err = endpoint.Open(endpoint.Config{Key: o.key, Listen: listen, Protocols: protocols})
	if err != nil {
		o.t.Fatal(err)
	}
	if err := m.Start(member.Over(o.endpoint)); err != nil {
		o.t.Fatal(err)
	}
	e := o.endpoint
	o.control = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return e.OpenStream(ctx, peer, control.Protocol)
	})
	o.t.Cleanup(func() { stop(o.t, m, e) })
}

// newTracker is one that knows nobody.
func (o *orchestrator) newTracker() {
	t := tracker.New(tracker.Config{Owner: o, Now: machine.Boottime, Rules: o.rules})
	o.mu.Lock()
	o.tracker = t
	o.mu.Unlock()
}

func (o *orchestrator) track(ctx context.Context, peer id.NodeID, s api.Stream) {
	o.mu.Lock()
	t := o.tracker
	o.mu.Unlock()
	t.Serve(ctx, peer, s)
}

// Wanted implements tracker.Owner: what is reported is what is wanted.
func (o *orchestrator) Wanted(_ context.Context, r admit.Report) (admit.Want, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := admit.Want{Binding: r.Binding, Context: r.Capacity.Context, Slots: r.Capacity.Slots, Tolerance: probe.Tolerance{Cosine: 0.5, Relative: 1}}
	if o.want != nil {
		o.want(&w)
	}
	return w, nil
}

// Tell implements tracker.Owner.
func (o *orchestrator) Tell(e admit.Effect) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := e.(admit.LeaseGranted); ok {
		o.granted = append(o.granted, e.Lease)
	}
}

// kill ends the orchestrator without a word.
func (o *orchestrator) kill() { stop(o.t, o.member, o.endpoint) }

func stop(t testing.TB, m *member.Member, e *endpoint.Endpoint) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := errors.Join(m.Close(ctx), e.Close(ctx)); err != nil {
		t.Error(err)
	}
}

func (o *orchestrator) handle(_ context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		close(o.changed)
		o.changed = make(chan struct{})
	}()
	switch body := req.GetBody().(type) {
	case *controlpb.Request_Hello:
		o.hellos++
		if o.refusal != nil {
			return nil, o.refusal
		}
		o.nodes[peer] = body.Hello.GetAddresses()
		o.permit()
		reply := &controlpb.HelloReply{Pool: "test", Epoch: 1, BootId: controlpb.ID(o.boot), Peers: o.peers(), Swim: &controlpb.SwimSettings{Profile: "local"}}
		return &controlpb.Reply{Body: &controlpb.Reply_Hello{Hello: reply}}, nil
	case *controlpb.Request_Offer:
		shard, refused := o.shard(body.Offer)
		if refused != nil {
			return nil, refused
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Offer{Offer: &controlpb.OfferReply{Shard: shard}}}, nil
	case *controlpb.Request_Report:
		if o.deaf != nil {
			return nil, o.deaf
		}
		o.reports[peer] = append(o.reports[peer], body.Report)
		if o.onReport != nil {
			o.onReport(body.Report)
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Report{Report: &controlpb.ReportReply{}}}, nil
	}
	return nil, nil
}

func (o *orchestrator) permit() {
	all := map[id.NodeID][]string{}
	var ids []id.NodeID
	for n, at := range o.nodes {
		all[n] = at
		ids = append(ids, n)
	}
	o.endpoint.Permit(1, all)
	o.member.SetPeers(ids)
}

func (o *orchestrator) peers() []*controlpb.Peer {
	var all []*controlpb.Peer
	for n, at := range o.nodes {
		all = append(all, &controlpb.Peer{NodeId: controlpb.ID(n), Addresses: at})
	}
	return all
}

func (o *orchestrator) serveWeights(ctx context.Context, s endpoint.Stream) {
	o.mu.Lock()
	o.reads++
	o.mu.Unlock()
	_ = weights.ServeReads(ctx, s, func(revision string, _ int) (io.ReaderAt, int64, error) {
		b := o.published()
		if revision == digestOf(o.probe) {
			b = o.probe
		}
		return bytes.NewReader(b), int64(len(b)), nil
	})
}

// published is the model that the orchestrator serves runs of.
func (o *orchestrator) published() []byte {
	if o.model == nil {
		return demo.Tale()
	}
	return o.model
}

// until waits until ok, which is asked again after each call of a node, and now
// and then.
func (o *orchestrator) until(what string, ok func() bool) {
	o.t.Helper()
	deadline := time.After(wait)
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			o.mu.Lock()
			defer o.mu.Unlock()
			o.t.Fatalf("%s did not come; reports: %v", what, o.reports)
		}
	}
}

// addresses are those that a node said hello with.
func (o *orchestrator) addresses(n id.NodeID) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nodes[n]
}

// told is what a node has reported.
func (o *orchestrator) told(n id.NodeID) []*controlpb.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.reports[n])
}

// reported counts a node's reports for which is holds.
func (o *orchestrator) reported(n id.NodeID, is func(*controlpb.Report) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := 0
	for _, r := range o.reports[n] {
		if is(r) {
			count++
		}
	}
	return count
}

func isAvailable(r *controlpb.Report) bool { return r.GetNodeAvailable() != nil }
func isFaulted(r *controlpb.Report) bool   { return r.GetNodeFaulted() != nil }
func isLeft(r *controlpb.Report) bool      { return r.GetEvent() != nil && isNodeLeft(r) }

func isNodeLeft(r *controlpb.Report) bool {
	_, ok := r.GetEvent().(*controlpb.Report_NodeLeft)
	return ok
}
