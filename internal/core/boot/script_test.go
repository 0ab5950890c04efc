package boot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"muster/internal/core/boot"
	"muster/internal/fault"
)

// The little language of the transcripts. A line is "[time] verb words"; a time
// is an instant (1.5s) or a step from the last (+1ms).
//
//	start 1                     AttemptStarted
//	proven arena [attempt]      FactProven       (the attempt is 1 where absent)
//	failed arena [attempt]      FactFailed
//	lost worker [attempt]       ResourceLost
//	leave, tick
type script struct {
	state boot.State
	now   time.Duration
	out   strings.Builder
}

func factOf(name string) boot.Fact {
	for _, f := range boot.Facts() {
		if f.String() == name {
			return f
		}
	}
	return 99
}

// why is the fault that a fact fails with.
func why(f boot.Fact) *fault.Fault { return fault.New(fault.ArenaCreateRefused, f.String()) }

func parse(line string, now time.Duration) (boot.Event, time.Duration, error) {
	words := strings.Fields(line)
	if d, err := time.ParseDuration(strings.TrimPrefix(words[0], "+")); err == nil {
		if strings.HasPrefix(words[0], "+") {
			d += now
		}
		now, words = d, words[1:]
	}
	words = append(words, "", "")
	attempt := uint32(1)
	if words[2] != "" {
		fmt.Sscan(words[2], &attempt)
	}
	f := factOf(words[1])
	switch words[0] {
	case "start":
		fmt.Sscan(words[1], &attempt)
		return boot.AttemptStarted{Attempt: attempt}, now, nil
	case "proven":
		return boot.FactProven{Attempt: attempt, Fact: f, Detail: "by use"}, now, nil
	case "failed":
		return boot.FactFailed{Attempt: attempt, Fact: f, Fault: why(f)}, now, nil
	case "lost":
		return boot.ResourceLost{Attempt: attempt, Fact: f, Fault: why(f)}, now, nil
	case "leave":
		return boot.LeaveAsked{}, now, nil
	case "tick":
		return boot.Tick{}, now, nil
	}
	return nil, now, fmt.Errorf("no verb %q", words[0])
}

func (s *script) line(line string) error {
	e, now, err := parse(line, s.now)
	if err != nil {
		return err
	}
	s.now = now
	var effects []boot.Effect
	s.state, effects = boot.Step(s.state, e, now)
	for _, effect := range effects {
		fmt.Fprintf(&s.out, "%-6s %s\n", now, show(effect))
	}
	return nil
}

func show(e boot.Effect) string {
	switch e := e.(type) {
	case boot.PhaseChanged:
		if e.Why != nil {
			return fmt.Sprintf("%s -> %s: %s", e.From, e.To, e.Why.Code)
		}
		return fmt.Sprintf("%s -> %s", e.From, e.To)
	case boot.Prove:
		return fmt.Sprintf("Prove %s by %s", e.Fact, e.By)
	case boot.FactChanged:
		return fmt.Sprintf("FactChanged %s %s after %s", e.Fact, e.Condition, e.Took)
	case boot.NodeAvailable:
		if e.WorkerDeferred {
			return fmt.Sprintf("NodeAvailable attempt %d, worker deferred", e.Attempt)
		}
		return fmt.Sprintf("NodeAvailable attempt %d", e.Attempt)
	case boot.BootFaulted:
		return fmt.Sprintf("BootFaulted attempt %d %s: %s", e.Attempt, e.Fact, e.Fault.Code)
	case boot.NodeFaulted:
		return fmt.Sprintf("NodeFaulted attempt %d %s: %s", e.Attempt, e.Fact, e.Fault.Code)
	case boot.Wake:
		return "Wake at " + e.At.String()
	}
	return fmt.Sprintf("%T", e)[len("boot."):]
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = &script{state: boot.New(boot.Settings{DeferWorker: d.HasArg("deferred")})}
				return ""
			case "checklist":
				return s.state.Checklist(s.now)
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
