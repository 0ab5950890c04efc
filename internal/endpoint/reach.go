package endpoint

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/fault"
	"muster/internal/id"
)

// stagger is the head start that each of a peer's addresses has of the next.
const stagger = 150 * time.Millisecond

// reach dials a peer at all addresses, each a little later than the one
// before, and adopts the first that answers. Faults are those of the address
// that tells most.
func (e *Endpoint) reach(ctx context.Context, peer id.NodeID, p *Protocol, addrs []string, alone bool) (*conn, error) {
	if len(addrs) == 0 {
		return nil, e.target(peer, p.Name).fault(fault.EndpointPeerUnknown).Because(errors.New("no address of it is known"))
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.DialTimeout)
	defer cancel()
	outcomes := make(chan outcome, len(addrs))
	for i, addr := range addrs {
		e.tasks.Go(func() {
			var o outcome
			if o.fault = pause(ctx, time.Duration(i)*stagger, e.targetAt(peer, p.Name, addr)); o.fault == nil {
				o.admitted, o.fault = e.reachAt(ctx, peer, p, addr, alone)
			}
			outcomes <- o
		})
	}
	var got *conn
	var worst *fault.Fault
	for range addrs {
		o := <-outcomes
		if o.fault == nil && got == nil {
			if got, o.fault = e.take(o.admitted); got != nil {
				cancel()
			}
		} else if o.fault == nil {
			_ = o.admitted.q.CloseWithError(codeDone, closeWords[codeDone])
		}
		worst = telling(worst, o.fault)
	}
	if got == nil {
		return nil, worst
	}
	return got, nil
}

// outcome is what dialling one address has come to.
type outcome struct {
	admitted admitted
	fault    *fault.Fault // nil where it was reached
}

// take adopts a connection that was dialled, or closes it.
func (e *Endpoint) take(a admitted) (*conn, *fault.Fault) {
	c, code := e.adopt(a)
	if c != nil {
		return c, nil
	}
	_ = a.q.CloseWithError(code, closeWords[code])
	return nil, e.target(a.peer, a.protocol.Name).closeFault(&quic.ApplicationError{ErrorCode: code})
}

// pause waits, so that addresses are tried one after another.
func pause(ctx context.Context, d time.Duration, t target) *fault.Fault {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return t.contextFault(ctx, 0)
	}
}

// rank orders faults of a dial by how much they tell.
var rank = map[fault.Code]int{
	fault.EndpointIdentityMismatched:   6,
	fault.EndpointPeerRefused:          5,
	fault.EndpointProtocolUnknown:      4,
	fault.EndpointConnectionsExhausted: 3,
	fault.EndpointConnectionClosed:     2,
	fault.EndpointPeerUnreachable:      1,
}

// telling joins the faults of two addresses into the one that tells more.
func telling(a, b *fault.Fault) *fault.Fault {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	if rank[b.Code] > rank[a.Code] {
		a, b = b, a
	}
	if a.Code == fault.EndpointPeerUnreachable && b.Code == a.Code {
		for i := range a.Attrs {
			if a.Attrs[i].Key == "address" && !strings.Contains(a.Attrs[i].Value, b.Attr("address")) {
				a.Attrs[i].Value += ", " + b.Attr("address")
			}
		}
	}
	return a
}

// reachAt dials a peer at one address and waits until it lets this node in.
func (e *Endpoint) reachAt(ctx context.Context, peer id.NodeID, p *Protocol, addr string, alone bool) (admitted, *fault.Fault) {
	began := time.Now()
	t := e.targetAt(peer, p.Name, addr)
	to, err := resolve(ctx, addr)
	if err != nil {
		return admitted{}, fault.From(err)
	}
	q, err := e.transport.Dial(ctx, to, e.clientTLS(peer, alpnOf(p.Name, alone)), e.quicConfig(p.Limits))
	if err == nil {
		if err = awaitHello(ctx, q); err != nil {
			_ = q.CloseWithError(codeBroken, closeWords[codeBroken])
		}
	}
	if err != nil {
		return admitted{}, e.dialFault(ctx, t, err, time.Since(began))
	}
	_, process, _ := identify(q.ConnectionState().TLS)
	return admitted{q: q, protocol: p, peer: peer, instance: process, dialled: true, alone: alone, at: addr}, nil
}

// dialFault says whether the caller, the endpoint or the peer ended a dial.
func (e *Endpoint) dialFault(ctx context.Context, t target, err error, waited time.Duration) *fault.Fault {
	if e.ctx.Err() != nil {
		return fault.From(e.Err())
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return t.contextFault(ctx, waited)
	}
	return t.dialFault(err, waited)
}

// resolve finds the first address of host:port.
func resolve(ctx context.Context, addr string) (*net.UDPAddr, error) {
	host, port, flaw := splitAddress(addr, 1)
	if flaw != "" {
		return nil, fault.New(fault.EndpointAddressInvalid, component, "address", addr, "what", flaw)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return nil, fault.New(fault.EndpointAddressInvalid, component, "address", addr, "what", "its host has no address").Because(err)
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ips[0].Unmap(), uint16(port))), nil
}
