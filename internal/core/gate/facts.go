package gate

import "muster/internal/id"

// admit reports whether a fact of this boot counts for the candidate now. The
// first boot seen becomes its boot; another one becomes its rival.
func (g *Gate) admit(i int, boot id.BootID, endpoint string) bool {
	n := &g.nodes[i]
	switch {
	case boot.IsZero():
		return false
	case n.boot == boot:
		return true
	case n.isRetired(boot):
		return false
	case n.boot.IsZero():
		g.reboot(i, boot)
		g.changed(i, gained)
		return true
	}
	g.contend(i, boot, endpoint)
	return false
}

func (n *node) isRetired(boot id.BootID) bool {
	for i := range n.retired {
		if n.retired[i] == boot {
			return true
		}
	}
	return false
}

// isOf reports whether a fact is of the boot that counts.
func (g *Gate) isOf(i int, boot id.BootID) bool {
	return !boot.IsZero() && g.nodes[i].boot == boot
}

func (g *Gate) known(e NodeKnown) {
	i := g.find(e.Node)
	if i < 0 || e.Endpoint == "" || !g.admit(i, e.Boot, e.Endpoint) {
		return
	}
	n := &g.nodes[i]
	if n.has(factKnown) && n.endpoint == e.Endpoint {
		return
	}
	c := gained
	if n.has(factKnown) {
		c = moved
	}
	n.endpoint, n.dialLoss = e.Endpoint, nil
	g.set(i, factKnown, true)
	g.set(i, factDialled, false)
	g.changed(i, c)
	g.emit(DialBack{n.booted()})
}

func (g *Gate) dialled(e EndpointDialled) {
	i := g.find(e.Node)
	if i < 0 || !g.isOf(i, e.Boot) {
		return
	}
	n := &g.nodes[i]
	if !n.has(factKnown) || n.endpoint != e.Endpoint {
		return
	}
	n.dialLoss = e.Fault
	proven := e.Fault == nil
	if n.has(factDialled) == proven {
		return
	}
	g.set(i, factDialled, proven)
	if proven {
		g.changed(i, gained)
	} else {
		g.changed(i, refused)
	}
}

func (g *Gate) available(e NodeAvailable) {
	i := g.find(e.Node)
	if i < 0 || e.Attempt == 0 || !g.admit(i, e.Boot, "") {
		return
	}
	n := &g.nodes[i]
	if e.Attempt <= n.attempt {
		return // told before, or this attempt or a later one has failed
	}
	c := gained
	if n.has(factAvailable) {
		c = bootFailed // there is no other way to a second attempt
	}
	n.attempt, n.faulted, n.bootLoss = e.Attempt, false, nil
	g.set(i, factAvailable, true)
	g.changed(i, c)
}

func (g *Gate) faulted(e NodeFaulted) {
	i := g.find(e.Node)
	if i < 0 || e.Attempt == 0 || !g.admit(i, e.Boot, "") {
		return
	}
	n := &g.nodes[i]
	if e.Attempt < n.attempt || e.Attempt == n.attempt && n.faulted {
		return
	}
	had := n.has(factAvailable)
	n.attempt, n.faulted, n.bootLoss = e.Attempt, true, e.Fault
	g.set(i, factAvailable, false)
	if had {
		g.changed(i, bootFailed)
	}
}

func (g *Gate) contact(e ContactMade) {
	i := g.find(e.Node)
	if i < 0 || !g.isOf(i, e.Boot) {
		return
	}
	n := &g.nodes[i]
	at := g.now - max(e.Age, 0)
	if at <= n.contact {
		return
	}
	n.contact = at
	if g.now-at > g.config.Contact {
		return // it says how long the node has been silent, no more
	}
	g.expiry = min(g.expiry, at+g.config.Contact)
	if !n.has(factFresh) {
		g.set(i, factFresh, true)
		g.changed(i, gained)
	}
}

// answered takes an answer to the closing question; the last one makes the pool
// ready.
func (g *Gate) answered(e NonceAnswered) {
	i := g.find(e.Node)
	if i < 0 || !g.asking || e.Round != g.round || !g.isOf(i, e.Boot) {
		return
	}
	n := &g.nodes[i]
	if n.round == e.Round {
		return
	}
	n.round, n.missed = e.Round, false
	n.contact = g.now
	g.answers++
	if g.answers < len(g.nodes) {
		return
	}
	g.asking, g.ready, g.due = false, true, 0
	g.emit(PoolReady{Epoch: g.epoch, Round: g.round, Members: g.Members()})
}
