package main

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/node"
	"muster/internal/reports"
)

// localStatus is what `muster status --node --json` prints.
type localStatus struct {
	node.Local
	Alive    bool            `json:"alive"`              // the process that told it still runs
	Examined *reports.Report `json:"examined,omitempty"` // its doctor's latest findings; missing where none are kept
}

// readLocal reads what the node of a folder last told.
func readLocal(dir string) (localStatus, error) {
	l, err := node.ReadLocal(dir)
	s := localStatus{Local: l, Alive: err == nil && l.Ended == nil && l.Process.Alive()}
	if kept, _, unread := reports.Kept(dir); unread == nil && len(kept) > 0 {
		s.Examined = &kept[0]
	}
	return s, err
}

// localText says for people how a node is, or was when it last told.
func localText(l localStatus, now time.Time) string {
	var b strings.Builder
	s, age := l.Status, max(0, now.Sub(l.Told))
	name := "node " + s.Node.Short()
	if s.Node.IsZero() {
		name = "a node whose key was not read yet"
	}
	if !l.Alive {
		fmt.Fprintf(&b, "%s: gone: %s\n", name, l.gone())
		fmt.Fprintf(&b, "what follows was told %s ago, at %s\n", spell(age), l.Told.Local().Format(time.DateTime))
		age = 0 // the facts are shown as they were then
	} else {
		fmt.Fprintf(&b, "%s: %s, attempt %d\n", name, s.Phase, s.Attempt)
	}
	fmt.Fprintf(&b, "process %d, muster %s, boot %s\n", l.Process.PID, l.Version, s.Boot.Short())
	fmt.Fprintf(&b, "orchestrator %s", l.Orchestrator)
	if l.Pool != "" {
		fmt.Fprintf(&b, ", pool %s", l.Pool)
	}
	b.WriteString("\n")
	shown := lossText(&b, l, now)
	b.WriteString("\nfacts:\n")
	for _, f := range s.Facts {
		localFact(&b, f, age, shown)
	}
	if st := s.Stage; st != nil {
		what := "stage of run " + st.Run.Short()
		if st.Offer {
			what = "offer"
		}
		fmt.Fprintf(&b, "\n%s: %s, layers %d to %d: %s\n", what, st.Model, st.Layers.Start, st.Layers.End-1, st.Phase)
		if st.Fault != nil {
			fmt.Fprintf(&b, "      %s\n      -> %s\n", st.Fault.Error(), st.Fault.Hint())
		}
	}
	if r := l.Examined; r != nil {
		fmt.Fprintf(&b, "\nits doctor, %s ago: %s, layers %d to %d: %s\n", spell(max(0, now.Sub(r.At))), r.Model,
			r.Findings.Layers[0], r.Findings.Layers[1]-1, verdict(*r))
		if r.Failed != nil {
			fmt.Fprintf(&b, "      -> %s\n", r.Failed.Hint())
		}
	}
	if o := s.Offer; o != nil {
		fmt.Fprintf(&b, "\noffer: %s, layers %d to %d: not held", o.Model, o.Layers[0], o.Layers[1]-1)
		if o.Again > 0 && l.Alive {
			fmt.Fprintf(&b, ", tried again in %s", spell(max(0, o.Again-age)))
		}
		b.WriteString("\n")
		if o.Fault != nil {
			fmt.Fprintf(&b, "      %s\n      -> %s\n", o.Fault.Error(), o.Fault.Hint())
		}
	}
	return trimLines(b.String())
}

// gone says how the process ended.
func (l localStatus) gone() string {
	switch {
	case l.Ended == nil:
		return fmt.Sprintf("its process %d no longer runs, and did not say why: it was killed, or the machine went down", l.Process.PID)
	case l.Ended.Fault == nil:
		return "it ended as it was asked to"
	}
	return "it ended by the fault " + string(l.Ended.Fault.Code)
}

// lossText shows the latest fault and returns its words. One that a later
// attempt has got over is said to be past.
func lossText(b *strings.Builder, l localStatus, now time.Time) string {
	f, when := l.Status.Fault, "in the way"
	switch {
	case l.Ended != nil && l.Ended.Fault != nil:
		f, when = l.Ended.Fault, "it ended by"
	case f == nil && l.Loss == nil:
		return ""
	case f == nil:
		f, when = l.Loss.Fault, fmt.Sprintf("before this attempt, %s ago", spell(now.Sub(l.Loss.At)))
	}
	fmt.Fprintf(b, "\n%s:\n  %s\n      -> %s\n", when, f.Error(), f.Hint())
	return f.Error()
}

// localFact is a line of the checklist; a fault that is shown already is not
// shown again.
func localFact(b *strings.Builder, f node.FactStatus, age time.Duration, shown string) {
	mark := map[string]string{"proven": "x", "deferred": "~", "failed": "!"}[f.State]
	if mark == "" {
		mark = " "
	}
	detail := f.Detail
	if f.State == "deferred" {
		detail = strings.TrimPrefix(detail+"; not proven yet: the first stage proves it", "; ")
	}
	fmt.Fprintf(b, "  [%s] %-12s  %-8s  %10s  %s\n", mark, f.Name, f.State, spell(f.Since+age), detail)
	if f.Fault != nil && f.Fault.Error() != shown {
		fmt.Fprintf(b, "      %s\n      -> %s\n", f.Fault.Error(), f.Hint)
	}
}
