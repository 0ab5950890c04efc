package endpoint

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
)

// mostAddresses of a peer are tried.
const mostAddresses = 8

// dial is an attempt to reach a peer that all who want it wait for. conn and
// err are set before done is closed. It is under the endpoint's lock.
type dial struct {
	addrs  []string // that are tried
	done   chan struct{}
	over   bool
	conn   *conn
	err    error
	cancel context.CancelCauseFunc
}

// finish gives the outcome; the first one counts: a connection that the peer
// has dialled meanwhile serves as well. The caller holds mu.
func (d *dial) finish(c *conn, err error) {
	if !d.over {
		d.over, d.conn, d.err = true, c, err
		close(d.done)
	}
}

// connection is the connection that new streams to the peer go to. It is
// dialled where there is none.
func (e *Endpoint) connection(ctx context.Context, peer id.NodeID, protocol string) (*conn, error) {
	began := time.Now()
	c, d, err := e.connect(peer, protocol)
	if c != nil || err != nil {
		return c, err
	}
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, e.targetAt(peer, protocol, strings.Join(d.addrs, ", ")).contextFault(ctx, time.Since(began))
	}
}

// connect returns a connection, or the dial to wait for, which it begins
// where there is none.
func (e *Endpoint) connect(peer id.NodeID, protocol string) (*conn, *dial, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.usable(peer, protocol)
	if c != nil || err != nil {
		return c, nil, err
	}
	key := linkKey{peer, protocol}
	if l := e.links[key]; l != nil && l.dial != nil && !l.dial.over {
		return nil, l.dial, nil
	}
	return nil, e.startDial(key), nil
}

// usable is the connection there is, nil where the peer may be dialled, or
// why it may not. The caller holds mu.
func (e *Endpoint) usable(peer id.NodeID, protocol string) (*conn, error) {
	if e.ctx.Err() != nil {
		return nil, e.Err()
	}
	if e.protocols[protocol] == nil || protocol == proof {
		return nil, unspoken(protocol)
	}
	if c := e.best(linkKey{peer, protocol}); c != nil {
		if now := time.Now(); now.Sub(c.contact) > quiet && now.Sub(c.nudged) > quiet {
			c.nudge(now)
		}
		return c, nil
	}
	if _, permitted := e.permitted[peer]; !permitted || peer == e.self {
		return nil, e.target(peer, protocol).fault(fault.EndpointPeerUnknown)
	}
	return nil, nil
}

func unspoken(protocol string) error {
	return fault.New(fault.EndpointConfigInvalid, component, "what", "it was not opened with the protocol "+protocol)
}

// startDial starts a dial to all addresses of a peer. The caller holds mu.
func (e *Endpoint) startDial(key linkKey) *dial {
	l := e.link(key)
	ctx, cancel := context.WithCancelCause(e.ctx)
	d := &dial{addrs: e.addresses(key.peer), done: make(chan struct{}), cancel: cancel}
	l.dial = d
	e.tasks.Go(func() {
		defer cancel(nil)
		c, err := e.reach(ctx, key.peer, l.protocol, d.addrs, false)
		e.mu.Lock()
		defer e.mu.Unlock()
		d.finish(c, err)
		if l.dial == d {
			l.dial = nil
		}
		e.prune(key, l)
	})
	return d
}

// addresses of a peer: those from which its connections come, latest first,
// for all of an endpoint's connections use its one port; then those it is
// permitted with. The caller holds mu.
func (e *Endpoint) addresses(peer id.NodeID) []string {
	var conns []*conn
	for name := range e.protocols {
		if l := e.links[linkKey{peer, name}]; l != nil {
			conns = append(conns, l.conns...)
		}
	}
	conns = slices.DeleteFunc(conns, func(c *conn) bool { return c.alone || c.stale || c.dead() })
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(b.number, a.number) })
	var addrs []string
	for _, c := range conns {
		addrs = append(addrs, c.address().String())
	}
	addrs = append(addrs, e.permitted[peer]...)
	var once []string
	for _, a := range addrs {
		if !slices.Contains(once, a) && len(once) < mostAddresses {
			once = append(once, a)
		}
	}
	return once
}

func (e *Endpoint) target(peer id.NodeID, protocol string) target {
	return e.targetAt(peer, protocol, "its addresses")
}

func (e *Endpoint) targetAt(peer id.NodeID, protocol, addr string) target {
	return target{self: e.self, peer: peer, protocol: protocol, address: addr}
}
