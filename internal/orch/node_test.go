package orch

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"
	"time"

	"muster/internal/control"
	"muster/internal/core/admit"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/tracker/api"
	"muster/internal/tracker/client"
	"muster/internal/wire/controlpb"
)

// fakeNode is a node as the orchestrator sees one: control, SWIM and edges are
// real, the stage answers without a model.
type fakeNode struct {
	t    testing.TB
	key  ed25519.PrivateKey
	name string

	// Set before boot, or by do.
	refuse    *fault.Fault // of Provision
	deaf      bool         // pings are not answered
	ignored   int          // pings that were not, and are not waited for any more
	stuck     bool         // the stage takes records and gives none
	halves    bool         // the stage gives half of its next record, and nothing more
	shut      bool         // the stage reads its edge no more
	unready   bool         // the stage never is ready
	unproven  bool         // the stage says that it is ready without a route
	spoil     func(*admit.Report)
	keeps     bool // a stage is never torn down
	listening string
	says      string // in place of where it listens
	attempt   uint32 // of its boot; 0: the first

	mu       sync.Mutex
	world    *Orch
	orch     id.NodeID
	at       string
	id       id.BootID
	sequence uint64
	endpoint *endpoint.Endpoint
	member   *member.Member
	table    *edge.Table
	calls    *control.Caller
	tracker  *client.Client
	reports  uint64
	stage    *fakeStage
	left     bool
	dead     bool // starts nothing more
	told     []*controlpb.Peer
	ctx      context.Context
	end      context.CancelFunc
	tasks    sync.WaitGroup
}

// boot makes the node live, acknowledged and available.
func (n *fakeNode) boot(o *Orch) {
	n.t.Helper()
	n.open(o)
	if err := n.hello(""); err != nil {
		n.t.Fatalf("hello of %s: %v", n.name, err)
	}
	n.available()
}

// open makes the node live, and nothing said.
func (n *fakeNode) open(o *Orch) {
	n.t.Helper()
	n.world = o
	n.orch, n.at, n.id, n.sequence, n.stage, n.dead = o.ID(), o.Address(), newBoot(n.t), 0, nil, false
	n.ctx, n.end = context.WithCancel(context.Background())
	n.table = edge.NewTable(edge.TableConfig{})
	var err error
	n.member, err = member.New(member.Config{Self: idOf(n.key), Boot: n.id, Pool: "test", Profile: member.Local()})
	if err != nil {
		n.t.Fatal(err)
	}
	listen := n.listening
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	n.endpoint, err = endpoint.Open(endpoint.Config{Key: n.key, Listen: listen, Protocols: []endpoint.Protocol{
		{Name: control.Protocol, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			control.Serve(ctx, peer, s, n.handle)
		}},
		{Name: member.Protocol, Datagram: n.member.Datagram, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			n.member.Serve(ctx, peer, s)
		}},
		{Name: api.Protocol},
		{Name: edge.Protocol, Uni: func(ctx context.Context, peer id.NodeID, r endpoint.Receiver) { n.table.Serve(ctx, peer, r) }},
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	e := n.endpoint
	e.Permit(0, map[id.NodeID][]string{n.orch: {n.at}})
	n.calls = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return e.OpenStream(ctx, peer, control.Protocol)
	})
	n.tracker = client.New(idOf(n.key), n.orch, func(ctx context.Context) (api.Stream, error) { return e.OpenStream(ctx, n.orch, api.Protocol) })
	if err := n.member.Start(member.Over(n.endpoint)); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.die)
}

// die ends the node without a word.
func (n *fakeNode) die() {
	n.end()
	n.do(func() { n.dead = true })
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_ = n.member.Close(ctx)
	n.tasks.Wait()
	_ = n.endpoint.Close(ctx)
}

func (n *fakeNode) call(req *controlpb.Request) (*controlpb.Reply, error) {
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	return n.calls.Call(ctx, n.orch, req)
}

func (n *fakeNode) hello(pool string) error {
	at := n.endpoint.Addr().String()
	if n.says != "" {
		at = n.says
	}
	reply, err := n.call(&controlpb.Request{Body: &controlpb.Request_Hello{Hello: &controlpb.Hello{
		BootId: controlpb.ID(n.id), Pool: pool, Addresses: []string{at}, Version: "test", Platform: "linux/amd64",
	}}})
	if err != nil {
		return err
	}
	h := reply.GetHello()
	n.meet(h.GetEpoch(), h.GetPeers())
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	return n.member.Join(ctx, []id.NodeID{n.orch})
}

// meet takes the peers of an epoch, and returns the epoch.
func (n *fakeNode) meet(epoch uint64, peers []*controlpb.Peer) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	permitted := map[id.NodeID][]string{n.orch: {n.at}}
	ids := []id.NodeID{n.orch}
	for _, p := range peers {
		permitted[controlpb.Node(p.GetNodeId())] = p.GetAddresses()
		ids = append(ids, controlpb.Node(p.GetNodeId()))
	}
	n.endpoint.Permit(epoch, permitted)
	n.member.SetPeers(ids)
	n.told = peers
	return epoch
}

// report tells the orchestrator something, once.
func (n *fakeNode) report(r *controlpb.Report) error {
	n.mu.Lock()
	n.sequence++
	r.BootId, r.Sequence = controlpb.ID(n.id), n.sequence
	n.mu.Unlock()
	_, err := n.call(&controlpb.Request{Body: &controlpb.Request_Report{Report: r}})
	return err
}

func (n *fakeNode) available() {
	n.t.Helper()
	if err := n.report(&controlpb.Report{Event: &controlpb.Report_NodeAvailable{NodeAvailable: &controlpb.NodeAvailable{
		Attempt: max(n.attempt, 1), Addresses: []string{n.endpoint.Addr().String()}, MemoryTotalBytes: 8 << 30, MemoryAvailableBytes: 4 << 30,
		Devices:      []*controlpb.Device{{Kind: "cpu", Name: "CPU", Description: "a processor"}},
		Versions:     &controlpb.Versions{Muster: "test", Engine: "none", Platform: "linux/amd64", Backend: controlpb.Sum([32]byte{1})},
		WorkerPolicy: controlpb.WorkerPolicy_WORKER_POLICY_PROVEN,
	}}}); err != nil {
		n.t.Fatalf("report of %s: %v", n.name, err)
	}
}

func (n *fakeNode) faulted(f *fault.Fault) error {
	return n.report(&controlpb.Report{Event: &controlpb.Report_NodeFaulted{NodeFaulted: &controlpb.NodeFaulted{
		Attempt: max(n.attempt, 1), Fault: controlpb.FaultOf(f),
	}}})
}

// do changes the node's ways.
func (n *fakeNode) do(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// handle answers the orchestrator.
func (n *fakeNode) handle(ctx context.Context, _ id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
	boot := controlpb.ID(n.id)
	switch body := req.GetBody().(type) {
	case *controlpb.Request_Ping:
		n.mu.Lock()
		deaf, pong := n.deaf, &controlpb.Pong{Nonce: body.Ping.GetNonce(), BootId: boot, Stage: n.stage.figures()}
		n.mu.Unlock()
		if deaf {
			<-ctx.Done()
			n.do(func() { n.ignored++ })
			return nil, ctx.Err()
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: pong}}, nil
	case *controlpb.Request_Peers:
		epoch := n.meet(body.Peers.GetEpoch(), body.Peers.GetPeers())
		return &controlpb.Reply{Body: &controlpb.Reply_Peers{Peers: &controlpb.PeersReply{BootId: boot, Epoch: epoch}}}, nil
	case *controlpb.Request_Provision:
		if err := n.provision(body.Provision); err != nil {
			return nil, err
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Provision{Provision: &controlpb.ProvisionReply{BootId: boot}}}, nil
	case *controlpb.Request_TearDown:
		gone := n.tearDown(body.TearDown)
		return &controlpb.Reply{Body: &controlpb.Reply_TearDown{TearDown: &controlpb.TearDownReply{BootId: boot, Gone: gone}}}, nil
	case *controlpb.Request_Leave:
		n.do(func() { n.left = true })
		return &controlpb.Reply{Body: &controlpb.Reply_Leave{Leave: &controlpb.LeaveReply{}}}, nil
	}
	return nil, nil
}
