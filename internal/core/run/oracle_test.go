package run_test

import (
	"slices"
	"time"

	"muster/internal/core/run"
	"muster/internal/id"
)

type told struct {
	e  run.Event
	at time.Duration
}

// verdict is what must hold of a run after a log, found by reading all of it.
type verdict struct {
	phase   run.Phase
	outcome run.Outcome
	owing   map[id.NodeID]bool // ordered, and neither confirmed nor lost
}

var deadlines = map[run.Phase]time.Duration{
	run.Planning: time.Second, run.Committing: 2 * time.Second, run.Provisioning: 3 * time.Second, run.Readying: 4 * time.Second, run.TearingDown: 5 * time.Second,
}

func settings() run.Settings {
	return run.Settings{
		Planning: deadlines[run.Planning], Committing: deadlines[run.Committing], Provisioning: deadlines[run.Provisioning],
		Readying: deadlines[run.Readying], TearingDown: deadlines[run.TearingDown],
	}
}

// judge reads the log. It knows phases only by what has been said so far.
func judge(log []told) verdict {
	v := verdict{owing: map[id.NodeID]bool{}}
	var (
		k                 run.Key
		places            []run.Placed
		ordered           bool
		accepted, isReady = map[id.NodeID]bool{}, map[id.NodeID]bool{}
		freed             = map[id.NodeID]bool{}
		now, since        time.Duration
	)
	become := func(p run.Phase) { v.phase, since = p, now }
	settle := func() {
		if v.phase == run.TearingDown && len(v.owing) == 0 {
			become(run.Done)
		}
	}
	end := func(o run.Outcome) {
		if v.outcome != run.Open || v.phase == run.Idle {
			return
		}
		v.outcome = o
		become(run.TearingDown)
		for _, p := range places {
			if ordered && !freed[p.Node] {
				v.owing[p.Node] = true
			}
		}
	}
	of := func(o run.Of) bool {
		return ordered && o.Key == k && slices.Contains(places, run.Placed{Node: o.Node, Boot: o.Boot})
	}
	free := func(n id.NodeID) {
		freed[n] = true
		delete(v.owing, n)
	}
	for _, l := range log {
		now = max(now, l.at)
		if limit, ok := deadlines[v.phase]; ok && now >= since+limit {
			if v.phase == run.TearingDown {
				v.owing = map[id.NodeID]bool{}
			} else {
				end(run.Faulted)
			}
			settle()
		}
		switch e := l.e.(type) {
		case run.RunAsked:
			if v.phase == run.Idle && !e.Run.IsZero() && e.Attempt > 0 {
				k = e.Key
				become(run.Planning)
			}
		case run.PlanMade:
			if v.phase == run.Planning && e.Key == k {
				if slices.ContainsFunc(e.Stages, func(p run.Placed) bool { return p.Boot.IsZero() }) || len(e.Stages) == 0 || twice(e.Stages) {
					end(run.Faulted)
				} else {
					places = e.Stages
					become(run.Committing)
				}
			}
		case run.PlanFailed:
			if v.phase == run.Planning && e.Key == k {
				end(run.Faulted)
			}
		case run.CommitRefused:
			if v.phase == run.Committing && e.Key == k {
				end(run.Faulted)
			}
		case run.CommitGranted:
			if v.phase == run.Committing && e.Key == k {
				ordered = true
				become(run.Provisioning)
			}
		case run.StageAccepted:
			if of(e.Of) {
				accepted[e.Node] = true
			}
		case run.StageReady:
			if of(e.Of) {
				accepted[e.Node], isReady[e.Node] = true, true
			}
		case run.StageRefused:
			if of(e.Of) {
				end(run.Faulted)
			}
		case run.StageFaulted:
			if of(e.Of) {
				end(run.Faulted)
			}
		case run.NodeLost:
			needed := slices.ContainsFunc(places, func(p run.Placed) bool { return p.Node == e.Node })
			if e.Key == k && (needed || e.Node.IsZero()) {
				end(run.Faulted)
				free(e.Node)
			}
		case run.CompletionAsked:
			if v.phase == run.Serving && e.Key == k {
				end(run.Completed)
			}
		case run.StopAsked:
			if e.Key == k {
				end(run.Stopped)
			}
		case run.TornDown:
			if of(e.Of) {
				free(e.Node)
				end(run.Faulted)
			}
		}
		if v.phase == run.Provisioning && len(accepted) == len(places) {
			become(run.Readying)
		}
		if v.phase == run.Readying && len(isReady) == len(places) {
			become(run.Serving)
		}
		settle()
	}
	return v
}

func twice(places []run.Placed) bool {
	seen := map[id.NodeID]bool{}
	for _, p := range places {
		if seen[p.Node] {
			return true
		}
		seen[p.Node] = true
	}
	return false
}
