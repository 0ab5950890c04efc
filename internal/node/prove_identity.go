package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/internal/control"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Pauses between hellos that were not answered.
const (
	firstHelloPause = 100 * time.Millisecond
	mostHelloPause  = time.Second
	helloWithin     = 3 * time.Second // of one
)

// proveIdentity has the orchestrator acknowledge this id and boot for its pool.
// A refusal that can never become a yes ends it at once; whatever else is tried
// again until the deadline.
func (n *node) proveIdentity(ctx context.Context, _ *attempt) (string, error) {
	net, err := n.here()
	if err != nil {
		return "", err
	}
	began := time.Now()
	var last error
	for pause := firstHelloPause; ; pause = min(2*pause, mostHelloPause) {
		hello, err := n.hello(ctx, net)
		if err == nil {
			return n.welcomed(net, hello)
		}
		if ctx.Err() != nil {
			break
		}
		if last = err; fault.From(err).Code.Entry().Retry == fault.Never {
			return "", err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	var said *fault.Fault
	if errors.As(last, &said) && !transport(said) {
		return "", said // it answered, and the answer says more
	}
	return "", fault.New(fault.NodeOrchestratorUnreachable, component, "orchestrator", n.cfg.Orchestrator.Short(),
		"address", n.cfg.OrchestratorAddr, "waited", time.Since(began).Round(100*time.Millisecond)).Because(last)
}

// hello asks once, on a connection of its own to the orchestrator's address:
// the orchestrator need not permit the node yet.
func (n *node) hello(ctx context.Context, net *network) (*controlpb.HelloReply, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	caller := control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return net.endpoint.OpenStreamAt(ctx, peer, control.Protocol, n.cfg.OrchestratorAddr)
	})
	reply, err := caller.Call(ctx, n.cfg.Orchestrator, &controlpb.Request{Body: &controlpb.Request_Hello{Hello: &controlpb.Hello{
		BootId: controlpb.ID(n.bootID), Pool: n.cfg.Pool, Addresses: net.addresses(), Version: n.cfg.Version, Platform: platform,
	}}})
	return reply.GetHello(), err
}

// welcomed takes over what the orchestrator said.
func (n *node) welcomed(net *network, hello *controlpb.HelloReply) (string, error) {
	if err := net.meet(hello); err != nil {
		return "", err
	}
	n.report.connect(controlpb.Boot(hello.GetBootId()))
	return fmt.Sprintf("known to %s in pool %s of epoch %d, with %d nodes",
		n.cfg.Orchestrator.Short(), hello.GetPool(), hello.GetEpoch(), len(hello.GetPeers())), nil
}

// transport reports whether a fault is of the way to a peer, not its answer.
func transport(f *fault.Fault) bool {
	family, _, _ := strings.Cut(string(f.Code), ".")
	return family == "endpoint" || family == "control"
}
