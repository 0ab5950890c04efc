package gate

import (
	"math"

	"muster/internal/fault"
)

// pass lets everything happen that is due at the present instant.
func (g *Gate) pass() {
	g.noticeStarvation()
	g.expireView()
	g.expireContacts()
	g.settleRivals()
	g.closeRound()
	g.openRound()
	g.expireFormation()
}

// noticeStarvation sees a tick that is overdue: whatever was not heard
// meanwhile may be this machine's fault.
func (g *Gate) noticeStarvation() {
	if g.wake != 0 && g.now-g.wake > g.config.Late {
		g.lateUntil = g.now + g.config.Window
	}
	g.judgeStarvation()
	if g.wake != 0 && g.now >= g.wake {
		g.wake = 0
	}
}

func (g *Gate) judgeStarvation() {
	starved := g.healthBad || g.now < g.lateUntil
	if starved == g.starved {
		return
	}
	g.starved = starved
	g.unsettle(g.starvation)
}

func (g *Gate) starvation() *fault.Fault { return fault.New(fault.OrchStarved, component) }

func (g *Gate) seeHealth(e HealthSeen) {
	g.healthBad = e.Bad
	g.judgeStarvation()
}

func (g *Gate) readView() {
	g.viewRead = g.now
	if !g.viewFresh {
		g.viewFresh = true
		g.unsettle(g.blindness)
	}
}

func (g *Gate) expireView() {
	if g.viewFresh && g.now-g.viewRead > g.config.View {
		g.viewFresh = false
		g.unsettle(g.blindness)
	}
}

func (g *Gate) blindness() *fault.Fault {
	return fault.New(fault.OrchViewOverdue, component, "waited", seconds(g.now-g.viewRead))
}

// expireContacts looks at every candidate, but only when one of them can have
// grown too old.
func (g *Gate) expireContacts() {
	if g.now <= g.expiry {
		return
	}
	g.expiry = math.MaxInt64
	for i := range g.nodes {
		n := &g.nodes[i]
		switch {
		case !n.has(factFresh):
		case g.now-n.contact > g.config.Contact:
			g.set(i, factFresh, false)
			g.changed(i, silent)
		default:
			g.expiry = min(g.expiry, n.contact+g.config.Contact)
		}
	}
}

// settleRivals gives ids to rivals whose holder stayed silent, and forgets
// rivals that have not been heard of.
func (g *Gate) settleRivals() {
	for k := 0; k < len(g.rivals); {
		r := g.rivals[k]
		i := g.find(r.node)
		switch {
		case !r.answered && g.now >= r.due:
			g.replace(i, r)
		case r.answered && g.now-r.heard > g.config.Rival:
			g.dropRival(i, r.boot)
		default:
			k++
		}
	}
}

// closeRound ends a closing question that was not answered by all in time.
func (g *Gate) closeRound() {
	if !g.asking || g.now < g.askDue {
		return
	}
	for i := range g.nodes {
		g.nodes[i].missed = g.nodes[i].round != g.round
	}
	g.asking = false
	g.since = g.now
}

// openRound asks the closing question at the end of the window.
func (g *Gate) openRound() {
	if !g.forming() || g.ready || g.asking || !g.holds() || g.now-g.since < g.config.Window {
		return
	}
	g.round++
	g.asking, g.answers, g.askDue = true, 0, g.now+g.config.Nonce
	g.emit(AskNonce{Round: g.round, Members: g.Members()})
}

func (g *Gate) expireFormation() {
	if !g.forming() || g.ready || g.due == 0 || g.now < g.due {
		return
	}
	g.abort(fault.New(fault.PoolFormationOverdue, component,
		"waited", seconds(g.config.Formation), "blockers", firstBlockers(g.Blockers(g.now))))
}

// askWake asks for the next tick where none is asked for, or the next deadline
// has come nearer.
func (g *Gate) askWake() {
	at := g.now + g.config.Beat
	if g.forming() && !g.ready {
		if g.asking {
			at = min(at, g.askDue)
		} else if g.holds() {
			at = min(at, g.since+g.config.Window)
		}
		if g.due != 0 {
			at = min(at, g.due)
		}
	}
	for i := range g.rivals {
		if !g.rivals[i].answered {
			at = min(at, g.rivals[i].due)
		}
	}
	if g.wake == 0 || at < g.wake {
		g.wake = at
		g.emit(Wake{At: at})
	}
}
