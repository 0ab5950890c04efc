package gate_test

import (
	"muster/internal/core/gate"
	"muster/internal/id"
)

func (o *oracle) judgeRival(n id.NodeID) {
	l := o.of[n]
	before, own := o.truths(), o.own()
	switch {
	case l.rival.IsZero():
	case !l.refused && o.now >= l.askDue:
		o.replace(n, l)
	case l.refused && o.now-l.rivalHeard > o.c.Rival:
		l.rival = id.BootID{}
	}
	o.compare(before, own)
}

func (o *oracle) replace(n id.NodeID, l *life) {
	l.gone[l.boot] = true
	*l = life{boot: l.rival, gone: l.gone}
}

// hears reports whether the word is of the boot that counts.
func (o *oracle) hears(n id.NodeID, b id.BootID, introduces bool) bool {
	l := o.of[n]
	switch {
	case l == nil || b.IsZero():
		return false
	case l.boot == b:
		return true
	case !introduces || l.gone[b]:
		return false
	case l.boot.IsZero():
		*l = life{boot: b, gone: l.gone}
		return true
	}
	again := l.rival != b && (l.rival.IsZero() || l.refused) || l.rival == b && l.refused && o.now-l.askDue >= o.c.Holder
	if again {
		o.asks++
		l.rival, l.ask, l.askDue, l.refused = b, o.asks, o.now+o.c.Holder, false
	}
	if l.rival == b {
		l.rivalHeard = o.now
	}
	return false
}

func (o *oracle) swim(e gate.SwimSeen) {
	l := o.of[e.Node]
	if l == nil || e.Boot.IsZero() {
		return
	}
	switch e.State {
	case gate.SwimAlive, gate.SwimSuspect:
		o.say(e.Node, e.Boot, e, true)
	case gate.SwimLeft:
		rival := l.rival
		l.gone[e.Boot] = true
		switch {
		case rival == e.Boot:
			l.rival = id.BootID{}
		case l.boot == e.Boot:
			*l = life{boot: rival, gone: l.gone}
		}
	default:
		if l.rival == e.Boot {
			l.rival = id.BootID{}
		}
		o.say(e.Node, e.Boot, e, false)
	}
}
