package endpoint

import "time"

// quiet is the silence after which a peer is nudged when a stream to it is
// opened.
const quiet = 250 * time.Millisecond

// nudgeBytes is the size of a nudge. A process answers a packet of a
// connection it does not know with a stateless reset, but only one larger than
// 42 bytes, the size of the reset itself: neither the library's own sign of
// life nor the first packet of a small call is.
const nudgeBytes = 48

// nudge asks the peer for a sign of life: an acknowledgement, or the reset of
// a process that has been started anew. The caller holds the endpoint's lock,
// and the endpoint is not closed.
func (c *conn) nudge(now time.Time) {
	if !c.nudging.CompareAndSwap(false, true) {
		return
	}
	c.nudged = now
	c.e.tasks.Go(func() {
		defer c.nudging.Store(false)
		b := make([]byte, nudgeBytes)
		b[0] = kindNudge
		_ = c.q.SendDatagram(b) // it waits while others do; they ask as well
	})
}
