package gate_test

import (
	"errors"
	"testing"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/id"
)

// setbacks are all that ends a readiness, as lines of the script, for a pool of
// a/1 and b/1 at their first attempts; each is told at the instant of the line
// before it. A committed run that needs both ends by that, or goes on and ends
// by the next loss, which is b's death.
var setbacks = []struct {
	name  string
	lines []string
	ends  fault.Code
	of    id.NodeID // none where it is the orchestrator itself
}{
	{"suspected", []string{"swim b/1 suspect 1"}, fault.NodeSuspected, node("b")},
	{"doubted and back between two readings", []string{"swim b/1 alive 2"}, fault.NodeDoubted, node("b")},
	{"dead", []string{"swim b/1 dead 1"}, fault.NodeDied, node("b")},
	{"purged from the view", []string{"swim b/1 unknown"}, fault.NodeDied, node("b")},
	{"left", []string{"swim b/1 left 1"}, fault.NodeDeparted, node("b")},
	{"faulted", []string{"faulted b/1 1"}, fault.NodeBootFaulted, node("b")},
	{"faulted and available again", []string{"available b/1 2"}, fault.NodeBootFaulted, node("b")},
	{"another boot, the holder gone", []string{"known b/2", "holder-gone 1 b/1"}, fault.NodeRestarted, node("b")},
	{"another boot claims the id", []string{"known b/2"}, fault.NodeDied, node("b")},
	{"moved", []string{"known b/1 elsewhere:1"}, fault.NodeDied, node("b")},
	{"its endpoint shows another key", []string{"dialled b/1 bad"}, fault.NodeIdentityRefused, node("b")},
	{"taken out of the pool", []string{"pool 2 a"}, fault.NodeRemoved, node("b")},
	{"one more in the pool", []string{"pool 2 a b c"}, fault.NodeDied, node("b")},
	{"the orchestrator unwell", []string{"health bad"}, fault.OrchStarved, id.NodeID{}},
}

// formation is how a pool of a and b comes to a committed run, in steps; a
// setback may fall after each of them.
var formation = []string{
	"1s tick", // the window is over: the question is out
	"answer a/1 1",
	"answer b/1 1", // ready
	"commit r1 epoch=1 round=1 a/1 b/1",
}

// Whatever is lost at whatever point before the commit: the commit is refused,
// and no run is faulted. After the commit, the first loss ends the run, once.
func TestALossAtEveryPointBetweenTheQuestionAndTheRun(t *testing.T) {
	for _, c := range setbacks {
		for point := range len(formation) + 1 {
			s := newScript(config()).play(t, "0s view", "0s pool 1 a b", "0s up a/1 b/1", "calm 900ms", "950ms view", "contact a/1", "contact b/1")
			s.play(t, formation[:point]...)
			s.play(t, c.lines...)
			s.play(t, formation[point:]...)
			s.play(t, c.lines...)                              // told again
			s.play(t, "swim b/1 dead 7", "swim a/1 suspect 7") // and more, where a run is under way
			granted, refused, faults := 0, 0, []gate.RunFaulted{}
			for _, e := range s.all {
				switch e := e.(type) {
				case gate.CommitGranted:
					granted++
				case gate.CommitRefused:
					refused++
					if !errors.Is(e.Fault, fault.PoolCommitRefused) || e.Fault.Attr("what") == "" {
						t.Errorf("%s after %d steps: refused by %v", c.name, point, e.Fault)
					}
				case gate.RunFaulted:
					faults = append(faults, e)
				}
			}
			committed := point == len(formation)
			if (granted == 1) != committed || (refused == 1) == committed || granted+refused != 1 {
				t.Errorf("%s after %d steps: %d granted, %d refused\n%s", c.name, point, granted, refused, s.out.String())
			}
			if (len(faults) == 1) != committed || len(faults) > 1 {
				t.Errorf("%s after %d steps: %d faults of the run\n%s", c.name, point, len(faults), s.out.String())
			} else if committed && !errors.Is(faults[0].Fault, c.ends) || committed && faults[0].Node != c.of {
				t.Errorf("%s: the run of node %q ended by %v", c.name, nameOf(faults[0].Node), faults[0].Fault)
			}
		}
	}
}

// Silence and a view that is not read end a readiness by time alone: they fall
// due at an instant before whatever is told at it.
func TestSilenceAtEveryPointBetweenTheQuestionAndTheRun(t *testing.T) {
	c := config()
	for name, kept := range map[string][]string{
		"a node is silent":     {"view", "contact a/1"},
		"the view is not read": {"contact a/1", "contact b/1"},
	} {
		for point := range 4 {
			s := newScript(c).play(t, "0s view", "0s pool 1 a b", "0s up a/1 b/1", "calm 900ms", "950ms view", "contact a/1", "contact b/1")
			s.play(t, formation[:point]...)
			for range 12 { // longer than any answer or reading counts
				s.play(t, "+100ms tick")
				s.play(t, kept...)
			}
			s.play(t, formation[max(point, 1):]...)
			for _, e := range s.all {
				if _, granted := e.(gate.CommitGranted); granted {
					t.Errorf("%s after %d steps: the commit was granted\n%s", name, point, s.out.String())
				}
			}
		}
	}
}
