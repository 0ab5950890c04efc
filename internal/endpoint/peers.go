package endpoint

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/id"
)

// sweepPeriod is how often connections are looked at, and how exact the age
// of a contact is.
const sweepPeriod = 200 * time.Millisecond

// PeerState is one connection as it is now.
type PeerState struct {
	Peer      id.NodeID
	Protocol  string
	Address   netip.AddrPort // where the peer's packets come from
	Path      string         // how they come: "direct"
	Dialled   bool           // from here
	Used      bool           // new streams go to this one
	Age       time.Duration
	Contact   time.Duration // since a packet of the peer was last seen; exact to 200 ms
	RoundTrip time.Duration // smoothed
	Streams   int           // open or being served
	Sent      uint64        // bytes, repetitions included
	Received  uint64        // bytes, repetitions included
	Lost      uint64        // packets sent that were taken for lost
	Datagrams Datagrams     // of this peer and protocol, by any of its connections
}

// Peers are all connections, by peer, protocol and age.
func (e *Endpoint) Peers() []PeerState {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	var states []PeerState
	for key, l := range e.links {
		best := e.best(key)
		for _, c := range l.conns {
			stats := c.q.ConnectionStats()
			c.note(stats, now)
			states = append(states, PeerState{
				Peer: key.peer, Protocol: key.protocol, Address: c.address(), Path: "direct",
				Dialled: c.dialled, Used: c == best, Age: now.Sub(c.since), Contact: now.Sub(c.contact),
				RoundTrip: stats.SmoothedRTT, Streams: int(c.busy.Load()),
				Sent: stats.BytesSent, Received: stats.BytesReceived, Lost: stats.PacketsLost, Datagrams: l.outbox.counts,
			})
		}
	}
	slices.SortFunc(states, func(a, b PeerState) int {
		return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(b.Age, a.Age))
	})
	return states
}

// note remembers when a packet has come. The caller holds mu.
func (c *conn) note(stats quic.ConnectionStats, now time.Time) {
	if stats.PacketsReceived != c.packets {
		c.packets, c.contact = stats.PacketsReceived, now
	}
}

// sweep looks at all connections again and again: when was the last contact,
// which are to go.
func (e *Endpoint) sweep() {
	ticks := time.NewTicker(sweepPeriod)
	defer ticks.Stop()
	for {
		select {
		case now := <-ticks.C:
			for c, code := range e.inspect(now) {
				c.close(code)
			}
		case <-e.ctx.Done():
			return
		}
	}
}

// inspect returns the connections that are to be closed now, and why.
func (e *Endpoint) inspect(now time.Time) map[*conn]quic.ApplicationErrorCode {
	e.mu.Lock()
	defer e.mu.Unlock()
	leaving := map[*conn]quic.ApplicationErrorCode{}
	for key, l := range e.links {
		best := e.best(key)
		for _, c := range l.conns {
			c.note(c.q.ConnectionStats(), now)
			if now.Sub(c.contact) >= e.cfg.KeepAlive && now.Sub(c.nudged) >= e.cfg.KeepAlive && e.ctx.Err() == nil {
				c.nudge(now)
			}
			c.idle++
			if c.busy.Load() > 0 {
				c.idle = 0
			}
			if c.stranger && now.Sub(c.since) >= e.cfg.Stay {
				leaving[c] = codeOverstayed
			} else if code, parts := c.parting(best, now, e.cfg.Linger); parts {
				leaving[c] = code
			}
		}
		if _, permitted := e.permitted[key.peer]; !permitted {
			l.outbox.counts = Datagrams{}
			e.prune(key, l)
		}
	}
	return leaving
}
