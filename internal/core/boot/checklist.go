package boot

import (
	"fmt"
	"strings"
	"time"
)

// Checklist renders the state for a person, one line a fact: its mark, name,
// condition, for how long, what it was proven with or what failed and what to
// do. Ages are as of now.
func (s State) Checklist(now time.Duration) string {
	now = max(now, s.Now)
	var b strings.Builder
	fmt.Fprintf(&b, "%s, attempt %d\n", s.Phase, s.Attempt)
	if s.Attempt == 0 {
		return b.String()
	}
	for _, f := range Facts() {
		line := s.Facts[f]
		fmt.Fprintf(&b, "%s %-12s %s %s%s\n", mark(line.Condition), f, line.Condition, seconds(now-line.Since), s.remark(f, now))
	}
	return b.String()
}

func mark(c Condition) string {
	switch c {
	case Proven:
		return "+"
	case Deferred:
		return "~"
	case Failed:
		return "x"
	default:
		return " "
	}
}

// remark is what follows a fact's age.
func (s State) remark(f Fact, now time.Duration) string {
	line := s.Facts[f]
	switch {
	case line.Fault != nil:
		return ": " + line.Fault.Error() + "; " + line.Fault.Hint()
	case line.Detail != "":
		return ": " + line.Detail
	case line.Condition == Proving:
		return ", " + seconds(max(line.Due-now, 0)) + " left"
	case line.Condition == Pending && s.Phase == InProof:
		return ": waits for " + s.missing(f)
	}
	return ""
}

// missing names the needs of a fact that do not hold.
func (s State) missing(f Fact) string {
	var names []string
	for _, n := range f.Needs() {
		if !s.Facts[n].Condition.Holds() {
			names = append(names, n.String())
		}
	}
	return strings.Join(names, ", ")
}
