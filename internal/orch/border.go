package orch

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"muster/internal/control"
	"muster/internal/core/gate"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/tracker/api"
	"muster/internal/weights"
	"muster/internal/wire/controlpb"
)

// strangersRequest bounds what somebody who is not in the pool can have read:
// a hello fits.
const strangersRequest = 64 << 10

// protocols are what the orchestrator speaks. Control is open, so that a node
// which is not in the pool is told so instead of meeting a closed door.
func (o *Orch) protocols() []endpoint.Protocol {
	return []endpoint.Protocol{
		{
			Name: control.Protocol, Open: true, Limits: endpoint.Limits{Streams: 32},
			Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) {
				served := control.Stream(s)
				if !o.isMember(peer) {
					served = briefStream{s, io.LimitReader(s, strangersRequest)}
				}
				control.Serve(ctx, peer, served, o.handler(s.RemoteAddr()))
			},
		},
		{
			Name: member.Protocol, Datagram: o.member.Datagram, Limits: endpoint.Limits{Streams: 16},
			Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) { o.member.Serve(ctx, peer, s) },
		},
		{
			Name: weights.Protocol, Limits: endpoint.Limits{Streams: 8},
			Bidi: func(ctx context.Context, _ id.NodeID, s endpoint.Stream) {
				_ = weights.ServeReads(ctx, s, o.model.lookup) // the peer has been told
			},
		},
		{
			Name: api.Protocol, Limits: endpoint.Limits{Streams: 8},
			Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) { o.tracker.Serve(ctx, peer, s) },
		},
		{
			Name: edge.Protocol, Limits: endpoint.Limits{Streams: 8},
			Uni: func(ctx context.Context, peer id.NodeID, r endpoint.Receiver) { o.table.Serve(ctx, peer, r) },
		},
	}
}

// briefStream is a stranger's: little of it is read.
type briefStream struct {
	endpoint.Stream
	limited io.Reader
}

func (s briefStream) Read(b []byte) (int, error) { return s.limited.Read(b) }

func (o *Orch) isMember(n id.NodeID) bool {
	members := o.members.Load()
	return members != nil && (*members)[n]
}

// handler answers one call that came from an address.
func (o *Orch) handler(from netip.AddrPort) control.Handler {
	return func(ctx context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
		switch body := req.GetBody().(type) {
		case *controlpb.Request_Hello:
			return o.answerHello(ctx, peer, from, body.Hello)
		case *controlpb.Request_Report:
			return o.answerReport(ctx, peer, body.Report)
		case *controlpb.Request_Offer:
			return o.answerOffer(ctx, peer, body.Offer)
		case *controlpb.Request_Leave:
			return o.answerLeave(ctx, peer)
		case *controlpb.Request_Ping:
			if !o.isMember(peer) {
				return nil, o.stranger(peer)
			}
			return o.answerPing(ctx, body.Ping)
		default:
			return nil, nil //nolint:nilnil // the contract of a handler: not served
		}
	}
}

func (o *Orch) stranger(peer id.NodeID) *fault.Fault {
	return fault.New(fault.PoolNodeUnknown, component, "node", peer, "pool", o.cfg.Pool.Name)
}

// answerPing goes through the mailbox: what is proven is that it lives.
func (o *Orch) answerPing(ctx context.Context, p *controlpb.Ping) (*controlpb.Reply, error) {
	if err := o.ask(ctx, func(*mailbox) {}); err != nil {
		return nil, err
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: &controlpb.Pong{
		Nonce: p.GetNonce(), BootId: controlpb.ID(o.boot),
	}}}, nil
}

func (o *Orch) answerHello(ctx context.Context, peer id.NodeID, from netip.AddrPort, h *controlpb.Hello) (*controlpb.Reply, error) {
	addresses := dialable(h.GetAddresses(), from)
	heard := helloHeard{
		peer: peer, boot: controlpb.Boot(h.GetBootId()), pool: h.GetPool(),
		addresses: addresses, version: h.GetVersion(), platform: h.GetPlatform(),
		answer: make(chan helloAnswer, 1),
	}
	o.post(heard)
	select {
	case a := <-heard.answer:
		if a.fault != nil {
			return nil, a.fault
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Hello{Hello: a.reply}}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-o.ctx.Done():
		return nil, context.Cause(o.ctx)
	}
}

func (o *Orch) answerReport(ctx context.Context, peer id.NodeID, r *controlpb.Report) (*controlpb.Reply, error) {
	var refused *fault.Fault
	if err := o.ask(ctx, func(m *mailbox) { refused = m.hearReport(peer, r) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Report{Report: &controlpb.ReportReply{}}}, nil
}

// answerLeave lets a node go: its boot counts no more.
func (o *Orch) answerLeave(ctx context.Context, peer id.NodeID) (*controlpb.Reply, error) {
	if err := o.ask(ctx, func(m *mailbox) { m.hearLeave(peer) }); err != nil {
		return nil, err
	}
	return &controlpb.Reply{Body: &controlpb.Reply_Leave{Leave: &controlpb.LeaveReply{}}}, nil
}

// dialable are the addresses a node can be reached at: those it told, with the
// host its call came from where it named none, and that alone where it told
// none.
func dialable(told []string, from netip.AddrPort) []string {
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	var out []string
	for _, a := range told {
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			continue
		}
		if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
			a = net.JoinHostPort(from.Addr().String(), port)
		}
		out = append(out, a)
	}
	if len(out) == 0 && from.IsValid() {
		out = append(out, net.JoinHostPort(from.Addr().String(), strconv.Itoa(int(from.Port()))))
	}
	return out
}

// seen tells the gate what SWIM says of a node. It may block.
func (o *Orch) seen(f member.Fact) {
	o.post(gate.SwimSeen{Node: f.Node, Boot: f.Boot, State: gate.SwimState(f.State), Incarnation: f.Incarnation})
}

// read tells the gate that the view was read whole, and how this machine does.
func (o *Orch) read(time.Time) {
	o.post(gate.ViewRead{})
	o.post(gate.HealthSeen{Bad: o.member.Health().Bad})
}
