package node

import (
	"context"
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
	"time"

	"muster/internal/control"
	"muster/internal/core/boot"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/tracker/api"
	"muster/internal/tracker/client"
	"muster/internal/wire/controlpb"
)

// network is how the node reaches others and is reached.
type network struct {
	n        *node
	key      ed25519.PrivateKey
	endpoint *endpoint.Endpoint
	tracker  *client.Client
	edges    *edge.Table
	caller   *control.Caller // permitted peers
	self     *control.Caller // the node itself, through its own socket
	watching sync.WaitGroup

	mu     sync.Mutex
	closed bool
	epoch  uint64
	peers  map[id.NodeID][]string // of the pool, with the orchestrator and the node itself
	hello  *controlpb.HelloReply  // nil before the orchestrator has answered
	member *member.Member         // nil before the first join
}

// openNetwork binds the port. Until the orchestrator has said more, it alone
// may come in, and the node itself.
func openNetwork(n *node, key ed25519.PrivateKey) (*network, error) {
	net := &network{n: n, key: key}
	net.edges = edge.NewTable(edge.TableConfig{Tell: func(f *fault.Fault) { n.cfg.Tell(event.EdgeRefused{Fault: f}) }})
	e, err := endpoint.Open(endpoint.Config{Key: key, Listen: n.cfg.Listen, Tell: n.cfg.Tell, Protocols: []endpoint.Protocol{
		{Name: control.Protocol, Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
			control.Serve(ctx, peer, s, n.handle)
		}},
		{Name: edge.Protocol, Uni: func(ctx context.Context, peer id.NodeID, r endpoint.Receiver) { net.edges.Serve(ctx, peer, r) }},
		{Name: weightsProtocol},
		{Name: api.Protocol},
		{
			Name: member.Protocol, Limits: endpoint.Limits{Streams: 16},
			Datagram: func(peer id.NodeID, b []byte) {
				if m := net.membership(); m != nil {
					m.Datagram(peer, b)
				}
			},
			Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
				if m := net.membership(); m != nil {
					m.Serve(ctx, peer, s)
				}
			},
		},
	}})
	if err != nil {
		return nil, err
	}
	net.endpoint = e
	net.caller = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return e.OpenStream(ctx, peer, control.Protocol)
	})
	net.self = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return e.OpenStreamAt(ctx, peer, control.Protocol, net.ownAddress())
	})
	net.tracker = client.New(e.ID(), n.cfg.Orchestrator, func(ctx context.Context) (api.Stream, error) {
		return e.OpenStream(ctx, n.cfg.Orchestrator, api.Protocol)
	})
	net.permit(0, nil)
	net.watching.Go(net.watch)
	return net, nil
}

// watch tells that the socket has failed.
func (net *network) watch() {
	<-net.endpoint.Done()
	net.mu.Lock()
	closed := net.closed
	net.mu.Unlock()
	if !closed {
		net.n.tell(lost{boot.Endpoint, fault.From(net.endpoint.Err())})
	}
}

// pool is the name of the pool that has acknowledged this boot.
func (net *network) pool() string {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.hello.GetPool()
}

// meet takes over what the orchestrator answered to a hello.
func (net *network) meet(hello *controlpb.HelloReply) error {
	net.mu.Lock()
	net.hello = hello
	net.mu.Unlock()
	if !net.permit(hello.GetEpoch(), hello.GetPeers()) {
		return fault.New(fault.NodeOrchestratorLost, component, "orchestrator", net.n.cfg.Orchestrator.Short(),
			"what", "its pool is of an older epoch than the one before")
	}
	return nil
}

// permit replaces who may come in. It is false for an epoch older than the one
// held, which changes nothing.
func (net *network) permit(epoch uint64, peers []*controlpb.Peer) bool {
	net.mu.Lock()
	defer net.mu.Unlock()
	all := map[id.NodeID][]string{}
	for _, p := range peers {
		all[controlpb.Node(p.GetNodeId())] = p.GetAddresses()
	}
	all[net.endpoint.ID()] = []string{net.ownAddress()}
	all[net.n.cfg.Orchestrator] = append([]string{net.n.cfg.OrchestratorAddr}, all[net.n.cfg.Orchestrator]...)
	if !net.endpoint.Permit(epoch, all) {
		return false
	}
	net.epoch, net.peers = epoch, all
	if net.member != nil {
		net.member.SetPeers(slices.Collect(maps.Keys(all)))
		_ = net.member.SetEpoch(epoch) // one that is closed tells nobody any more
	}
	return true
}

// learn adds addresses of a permitted peer.
func (net *network) learn(peer id.NodeID, addresses []string) {
	net.mu.Lock()
	defer net.mu.Unlock()
	known, permitted := net.peers[peer]
	if !permitted || len(addresses) == 0 || slices.Equal(known, addresses) || peer == net.endpoint.ID() {
		return
	}
	all := maps.Clone(net.peers)
	all[peer] = addresses
	if net.endpoint.Permit(net.epoch, all) {
		net.peers = all
	}
}

// heldEpoch is the epoch of the peers that are permitted.
func (net *network) heldEpoch() uint64 {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.epoch
}

func (net *network) membership() *member.Member {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.member
}

// close ends everything without a word.
func (net *network) close() {
	net.mu.Lock()
	net.closed = true
	m := net.member
	net.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if m != nil {
		_ = m.Close(ctx) // one that is overdue reaches nothing of ours
	}
	_ = net.endpoint.Close(ctx) // the socket is closed in any case
	net.watching.Wait()
}

const closeWithin = 5 * time.Second
