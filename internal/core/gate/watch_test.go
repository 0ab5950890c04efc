package gate_test

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/core/gate"
	"muster/internal/id"
)

// watched plays a script with the oracle beside it and checks, after every
// step, all that must hold.
type watched struct {
	*script
	o       *oracle
	t       failer
	readies int
	losses  int
	faults  map[id.RunID]int
	log     []said
	seen    int
	reached func(gate.Phase) // nil, or hears the phase after every step
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func watch(t failer, c gate.Config) *watched {
	w := &watched{script: newScript(c), o: newOracle(c), t: t, faults: map[id.RunID]int{}}
	w.tell = func(e gate.Event, now time.Duration) {
		w.check()
		w.log = append(w.log, said{e, now})
		w.o.step(e, now)
	}
	return w
}

// check compares after the step before; call it once more at the end.
func (w *watched) check() {
	w.t.Helper()
	var blamed *id.NodeID
	for _, e := range w.all[w.seen:] {
		switch e := e.(type) {
		case gate.PoolReady:
			w.readies++
			for _, m := range e.Members {
				if truth := w.o.truth(m.Node); !truth.all() || m.Boot != w.o.of[m.Node].boot {
					w.t.Fatalf("ready with %s, of which %+v holds", at1(m), truth)
				}
			}
		case gate.PoolLost:
			w.losses++
		case gate.RunFaulted:
			w.faults[e.Run]++
			blamed = &e.Node
			if w.faults[e.Run] > 1 {
				w.t.Fatalf("%s faulted twice", runName(e.Run))
			}
		case gate.Wake:
			w.o.wake = e.At
		}
	}
	if w.o.wake <= w.o.now || w.o.wake > w.o.now+w.o.c.Beat {
		if len(w.log) > 0 {
			w.t.Fatalf("at %s the next tick is asked for at %s", w.o.now, w.o.wake)
		}
	}
	w.seen = len(w.all)
	total := 0
	for _, n := range w.faults {
		total += n
	}
	if w.reached != nil {
		w.reached(w.gate.Phase())
	}
	if got, want := w.gate.Phase(), w.o.phase(); got != want {
		w.t.Fatalf("the gate is %s, the contract says %s, after\n%s", got, want, w.history())
	}
	if w.readies != w.o.readies || w.losses != w.o.losses || total != w.o.faults {
		w.t.Fatalf("readies, losses, faults are %d, %d, %d, want %d, %d, %d, after\n%s",
			w.readies, w.losses, total, w.o.readies, w.o.losses, w.o.faults, w.history())
	}
	if blamed != nil && *blamed != w.o.blamed {
		w.t.Fatalf("blamed %q, not %q", nameOf(*blamed), nameOf(w.o.blamed))
	}
	if blockers := w.gate.Blockers(w.now); (len(blockers) == 0) != (w.gate.Phase() == gate.Ready) {
		w.t.Fatalf("%s with blockers %v", w.gate.Phase(), blockers)
	}
}

func (w *watched) history() string {
	var b strings.Builder
	for _, s := range w.log {
		fmt.Fprintf(&b, "%s %T%+v\n", s.at, s.e, s.e)
	}
	return b.String() + w.out.String()
}
