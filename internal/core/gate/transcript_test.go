package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"muster/internal/core/gate"
)

// The transcripts are the scenarios of a gate, readable from top to bottom:
// what was told, then what the gate did. `new` begins one; `blockers` shows
// what it says to a person.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = newScript(configOf(t, d))
				return ""
			case "blockers":
				var lines []string
				for _, b := range s.gate.Blockers(s.now) {
					lines = append(lines, b.String())
				}
				if len(lines) == 0 {
					return "none: " + s.gate.Phase().String()
				}
				return s.gate.Phase().String() + "\n" + strings.Join(lines, "\n")
			case "step":
				s.out.Reset()
				for _, line := range strings.Split(d.Input, "\n") {
					if err := s.line(line); err != nil {
						d.Fatalf(t, "%q: %v", line, err)
					}
				}
				return either(s.out.String(), "nothing")
			}
			d.Fatalf(t, "no command %s", d.Cmd)
			return ""
		})
	})
}

func configOf(t *testing.T, d *datadriven.TestData) gate.Config {
	c := config()
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "abort":
			c.LossPolicy = gate.Abort
		case "formation":
			f, err := time.ParseDuration(arg.Vals[0])
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			c.Formation = f
		default:
			d.Fatalf(t, "no setting %s", arg.Key)
		}
	}
	return c
}
