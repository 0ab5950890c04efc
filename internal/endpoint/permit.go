package endpoint

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// Permit replaces the set of peers that may connect and be dialled, each with
// its addresses (host:port; none for a peer that dials first). A set of an
// older epoch than the last is ignored, and false returned; one of the same
// epoch replaces, so that addresses can be learned within an epoch.
//
// Dials to and connections of peers no longer in the set are ended before
// Permit returns; those of open protocols go on as strangers'. Connections
// dialled at an address that their peer has no more serve out their streams;
// new streams are dialled anew.
func (e *Endpoint) Permit(epoch uint64, peers map[id.NodeID][]string) bool {
	e.mu.Lock()
	if epoch < e.epoch {
		e.mu.Unlock()
		return false
	}
	e.epoch = epoch
	before := e.permitted
	e.remember(peers)
	outcasts := e.review(before)
	e.mu.Unlock()
	for _, c := range outcasts {
		c.close(codeNotPermitted)
	}
	return true
}

// remember keeps a copy of the set. The caller holds mu.
func (e *Endpoint) remember(peers map[id.NodeID][]string) {
	e.permitted = make(map[id.NodeID][]string, len(peers))
	e.known = map[netip.AddrPort]bool{}
	for peer, addrs := range peers {
		e.permitted[peer] = slices.Clone(addrs)
		for _, text := range addrs {
			if a, err := netip.ParseAddrPort(text); err == nil {
				e.known[unmapped(a)] = true
			}
		}
	}
}

// review holds all connections and dials against the new set, and returns
// those that must go. The caller holds mu.
func (e *Endpoint) review(before map[id.NodeID][]string) []*conn {
	var outcasts []*conn
	for key, l := range e.links {
		allowed := e.allows(key.peer, l.protocol)
		if !allowed && l.dial != nil {
			l.dial.cancel(e.target(key.peer, key.protocol).fault(fault.EndpointPeerUnknown))
		}
		for _, c := range l.conns {
			e.reckon(c)
			listed := slices.Contains(e.permitted[key.peer], c.at)
			c.stale = !listed && (c.stale || slices.Contains(before[key.peer], c.at))
			if !allowed {
				outcasts = append(outcasts, c)
			}
		}
	}
	return outcasts
}

// allows reports whether a peer may hold a connection of p. The caller holds mu.
func (e *Endpoint) allows(peer id.NodeID, p *Protocol) bool {
	if p.Name == proof && peer == e.self {
		return true
	}
	_, permitted := e.permitted[peer]
	return permitted || p.Open
}

// reckon keeps the count of strangers' connections true of c. The caller
// holds mu.
func (e *Endpoint) reckon(c *conn) {
	_, permitted := e.permitted[c.peer]
	stranger := !c.dialled && !permitted && c.peer != e.self
	switch {
	case stranger && !c.stranger:
		e.strangers++
	case !stranger && c.stranger:
		e.strangers--
	}
	c.stranger = stranger
}

// admit is asked in the handshake, before any byte of a stream.
func (e *Endpoint) admit(state tls.ConnectionState, from net.Addr) error {
	name, _ := protocolOf(state.NegotiatedProtocol)
	p := e.protocols[name]
	peer, _, err := identify(state)
	switch {
	case err != nil:
	case p == nil:
		err = errors.New("it speaks no protocol of this node")
	default:
		e.mu.Lock()
		if !e.allows(peer, p) {
			err = errors.New("it is not permitted")
		}
		e.mu.Unlock()
	}
	if err != nil {
		e.refusals.note(e.cfg.Tell, event.StrangerRefused{Peer: peer, Protocol: name, Address: from.String(), Reason: err.Error()})
	}
	return err
}

// refusals tells of at most one refused stranger a second: whoever floods the
// port does not flood the journal.
type refusals struct {
	mu     sync.Mutex
	last   time.Time
	untold int
}

func (r *refusals) note(tell func(event.Event), refused event.StrangerRefused) {
	r.mu.Lock()
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < time.Second {
		r.untold++
		r.mu.Unlock()
		return
	}
	refused.Untold, r.untold, r.last = r.untold, 0, now
	r.mu.Unlock()
	tell(refused)
}
