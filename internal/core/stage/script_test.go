package stage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"muster/internal/core/stage"
	"muster/internal/fault"
	"muster/internal/id"
)

// The little language of the transcripts. A line is "[time] verb words". A
// trailing r2, o1, o2, #2 or boot2 makes the event one of another order.
//
//	open, close, offer, provision 1, held 1, adopted, lost, dry 1, prepared, bytes 100, weights, loaded,
//	joined in|out, serve, failed, tear-down, done 10|20|30|40, tick
type script struct {
	state stage.State
	now   time.Duration
	out   strings.Builder
}

var (
	boot1 = id.BootID{1}
	r1    = stage.Order{Run: id.RunID{1}, Attempt: 1, Boot: boot1}
	why   = fault.New(fault.WorkerKilled, "worker")
)

func orderOf(word string) (stage.Order, bool) {
	o := r1
	switch word {
	case "r2":
		o.Run = id.RunID{2}
	case "#2":
		o.Attempt = 2
	case "boot2":
		o.Boot = id.BootID{2}
	case "o1", "o2":
		o.Run, o.Attempt = id.RunID{}, uint32(word[1]-'0')
	case "none":
		o = stage.Order{}
	default:
		return o, false
	}
	return o, true
}

func orderName(o stage.Order) string {
	if o.Offer() {
		return fmt.Sprintf("o%d", o.Attempt)
	}
	return fmt.Sprintf("r%d#%d", o.Run[0], o.Attempt)
}

func parse(line string, now time.Duration) (stage.Event, time.Duration, error) {
	words := strings.Fields(line)
	if d, err := time.ParseDuration(words[0]); err == nil {
		now, words = d, words[1:]
	}
	o, other := orderOf(words[len(words)-1])
	if other {
		words = words[:len(words)-1]
	}
	var n uint64
	if len(words) > 1 {
		fmt.Sscan(words[1], &n)
	}
	switch words[0] {
	case "open":
		return stage.AvailabilityChanged{Available: true}, now, nil
	case "close":
		return stage.AvailabilityChanged{Fault: why}, now, nil
	case "offer":
		return stage.OfferAsked{Order: o}, now, nil
	case "adopted":
		return stage.Adopted{Order: o}, now, nil
	case "lost":
		return stage.RouteLost{Order: o, Fault: why}, now, nil
	case "held":
		return stage.ProvisionAsked{Order: o, Ask: n, Held: true}, now, nil
	case "provision":
		return stage.ProvisionAsked{Order: o, Ask: n}, now, nil
	case "dry":
		return stage.ProvisionAsked{Order: o, Ask: n, DryRun: true}, now, nil
	case "prepared":
		return stage.Prepared{Order: o}, now, nil
	case "bytes":
		return stage.WeightsProgressed{Order: o, Done: n}, now, nil
	case "weights":
		return stage.WeightsReady{Order: o}, now, nil
	case "loaded":
		return stage.Loaded{Order: o}, now, nil
	case "admitted":
		return stage.Admitted{Order: o}, now, nil
	case "joined":
		side := stage.In
		switch words[1] {
		case "out":
			side = stage.Out
		case "both":
			side = stage.In | stage.Out // no side
		}
		return stage.EdgeJoined{Order: o, Side: side}, now, nil
	case "serve":
		return stage.ServeAsked{Order: o}, now, nil
	case "failed":
		return stage.StageFailed{Order: o, Fault: why}, now, nil
	case "tear-down":
		return stage.TearDownAsked{Order: o}, now, nil
	case "done":
		return stage.PartDone{Order: o, Part: stage.Part(n)}, now, nil
	case "tick":
		return stage.Tick{}, now, nil
	}
	return nil, now, fmt.Errorf("no verb %q", words[0])
}

func (s *script) line(line string) error {
	e, now, err := parse(line, s.now)
	if err != nil {
		return err
	}
	s.now = now
	var effects []stage.Effect
	s.state, effects = stage.Step(s.state, e, now)
	for _, effect := range effects {
		fmt.Fprintf(&s.out, "%-6s %s\n", now, show(effect))
	}
	return nil
}

func show(e stage.Effect) string {
	switch e := e.(type) {
	case stage.PhaseChanged:
		if e.Why != nil {
			return fmt.Sprintf("%s: %s -> %s: %s", orderName(e.Order), e.From, e.To, e.Why.Code)
		}
		return fmt.Sprintf("%s: %s -> %s", orderName(e.Order), e.From, e.To)
	case stage.ProvisionAccepted:
		if e.DryRun {
			return fmt.Sprintf("ProvisionAccepted %d, dry run", e.Ask)
		}
		return fmt.Sprintf("ProvisionAccepted %d", e.Ask)
	case stage.ProvisionRefused:
		return fmt.Sprintf("ProvisionRefused %d: %s", e.Ask, e.Fault.Code)
	case stage.StageFaulted:
		return fmt.Sprintf("StageFaulted %s: %s", orderName(e.Order), e.Fault.Code)
	case stage.Adopt:
		return fmt.Sprintf("Adopt what %s holds for %s", orderName(e.From), orderName(e.Order))
	case stage.TakeDown:
		return "TakeDown " + e.Part.String()
	case stage.TeardownOverdue:
		return fmt.Sprintf("TeardownOverdue %s: %s", e.Part, e.Fault.Code)
	case stage.TornDown:
		return "TornDown " + orderName(e.Order)
	case stage.Wake:
		return "Wake at " + e.At.String()
	}
	return fmt.Sprintf("%T", e)[len("stage."):]
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				s = &script{state: stage.New(stage.Settings{}, boot1)}
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
