package run_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"muster/internal/core/run"
	"muster/internal/fault"
	"muster/internal/id"
)

// The little language of the transcripts. A line is "[time] verb words". A node
// at a boot is a/1; a trailing r2 or #2 makes the event one of another run or
// attempt.
//
//	ask, plan a/1 b/1, plan-failed, granted, refused-commit, accepted a/1,
//	refused a/1, ready a/1, faulted a/1, lost a (or -), complete, stop,
//	torn-down a/1, tick
type script struct {
	state run.State
	now   time.Duration
	out   strings.Builder
}

func node(name string) (n id.NodeID) {
	copy(n[:], name)
	return n
}

func placed(word string) run.Placed {
	name, b, _ := strings.Cut(word, "/")
	var boot id.BootID
	copy(boot[:], b)
	return run.Placed{Node: node(name), Boot: boot}
}

func key(name string, attempt uint32) (k run.Key) {
	copy(k.Run[:], name)
	k.Attempt = attempt
	return k
}

var why = fault.New(fault.WorkerKilled, "worker")

func parse(line string, now time.Duration) (run.Event, time.Duration, error) {
	words := strings.Fields(line)
	if d, err := time.ParseDuration(words[0]); err == nil {
		now, words = d, words[1:]
	}
	k := key("r1", 1)
	switch last := words[len(words)-1]; last {
	case "r2":
		k, words = key("r2", 1), words[:len(words)-1]
	case "#2":
		k, words = key("r1", 2), words[:len(words)-1]
	}
	verb, args := words[0], append(slices.Clone(words[1:]), "")
	of := run.Of{Key: k, Node: placed(args[0]).Node, Boot: placed(args[0]).Boot}
	switch verb {
	case "ask":
		return run.RunAsked{Key: k}, now, nil
	case "plan":
		e := run.PlanMade{Key: k, Epoch: 7, Round: 3}
		for _, a := range words[1:] {
			e.Stages = append(e.Stages, placed(a))
		}
		return e, now, nil
	case "plan-failed":
		return run.PlanFailed{Key: k, Fault: why}, now, nil
	case "granted":
		return run.CommitGranted{Key: k}, now, nil
	case "refused-commit":
		return run.CommitRefused{Key: k, Fault: why}, now, nil
	case "accepted":
		return run.StageAccepted{Of: of}, now, nil
	case "refused":
		return run.StageRefused{Of: of, Fault: why}, now, nil
	case "ready":
		return run.StageReady{Of: of}, now, nil
	case "faulted":
		return run.StageFaulted{Of: of, Fault: why}, now, nil
	case "lost":
		return run.NodeLost{Key: k, Node: node(strings.TrimPrefix(args[0], "-")), Fault: why}, now, nil
	case "complete":
		return run.CompletionAsked{Key: k}, now, nil
	case "stop":
		return run.StopAsked{Key: k}, now, nil
	case "torn-down":
		return run.TornDown{Of: of}, now, nil
	case "tick":
		return run.Tick{}, now, nil
	}
	return nil, now, fmt.Errorf("no verb %q", verb)
}

func (s *script) line(line string) error {
	e, now, err := parse(line, s.now)
	if err != nil {
		return err
	}
	s.now = now
	var effects []run.Effect
	s.state, effects = run.Step(s.state, e, now)
	for _, effect := range effects {
		fmt.Fprintf(&s.out, "%-6s %s\n", now, show(effect))
	}
	return nil
}

func nameOf(n id.NodeID) string {
	if n.IsZero() {
		return "-"
	}
	return strings.TrimRight(string(n[:]), "\x00")
}

func show(e run.Effect) string {
	switch e := e.(type) {
	case run.PhaseChanged:
		return fmt.Sprintf("%s -> %s", e.From, e.To)
	case run.Commit:
		var places []string
		for _, p := range e.Stages {
			places = append(places, nameOf(p.Node)+"/"+strings.TrimRight(string(p.Boot[:]), "\x00"))
		}
		return fmt.Sprintf("Commit epoch %d round %d: %s", e.Epoch, e.Round, strings.Join(places, " "))
	case run.Provision:
		return fmt.Sprintf("Provision stage %d of %s", e.Stage, nameOf(e.Node))
	case run.TearDown:
		return "TearDown " + nameOf(e.Node)
	case run.RunFaulted:
		return fmt.Sprintf("RunFaulted node %s: %s", nameOf(e.Node), e.Fault.Code)
	case run.TeardownOverdue:
		var nodes []string
		for _, n := range e.Nodes {
			nodes = append(nodes, nameOf(n))
		}
		return fmt.Sprintf("TeardownOverdue %s: %s", strings.Join(nodes, " "), e.Fault.Code)
	case run.Wake:
		return "Wake at " + e.At.String()
	}
	return fmt.Sprintf("%T", e)[len("run."):]
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = &script{state: run.New(run.Settings{})}
				return ""
			case "step":
				s.out.Reset()
				for _, line := range strings.Split(d.Input, "\n") {
					if err := s.line(line); err != nil {
						d.Fatalf(t, "%q: %v", line, err)
					}
				}
				if s.out.Len() == 0 {
					return "nothing"
				}
				return s.out.String()
			}
			d.Fatalf(t, "no command %s", d.Cmd)
			return ""
		})
	})
}
