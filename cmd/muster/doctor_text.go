package main

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/doctor"
	"muster/internal/reports"
)

// reportText says for people what was found of a shard: the verdict, each check
// with its figure, and what to do about those that failed.
func reportText(r reports.Report) string {
	var b strings.Builder
	f := r.Findings
	fmt.Fprintf(&b, "%s, layers %d to %d: %s\n", r.Model, f.Layers[0], f.Layers[1]-1, verdict(r))
	against := "checked against itself: no reference of a preset was there"
	switch {
	case len(f.Checks) == 0:
		against = "not examined"
	case f.Referenced:
		against = "checked against the preset's reference"
	}
	fmt.Fprintf(&b, "revision %s, %s\n", r.Revision[:min(len(r.Revision), shortRevision)], against)
	c := r.Recipe
	fmt.Fprintf(&b, "context %d, %d %s, chunk %d, KV %s, flash attention %s\n\n", c.Context, c.Slots, plural(c.Slots, "slot"), c.Chunk, c.KVType, c.FlashAttention)
	checksText(&b, r)
	if r.Failed != nil && !failedByCheck(f) {
		fmt.Fprintf(&b, "  [!] %s\n      -> %s\n", printable(r.Failed.Error()), indent(printable(r.Failed.Hint())))
		return b.String()
	}
	if f.Held > 0 {
		fmt.Fprintf(&b, "\n%.2f ms a token, %.3f ms a token of a whole chunk, %s resident with %s\n",
			f.DecodeMicros/1000, f.PrefillMicros/1000, bytesText(int64(f.ResidentBytes)), heldText(f))
	}
	return b.String()
}

// checksText is a line for each check, and below one that failed its cause,
// where the forward ended by it, and what to try, once for all that follow one
// another with the same.
func checksText(b *strings.Builder, r reports.Report) {
	tried := ""
	for _, c := range r.Findings.Checks {
		if c.Passed {
			fmt.Fprintf(b, "  [x] %-9s  %s\n", c.Name, doctor.Says(c))
			continue
		}
		fmt.Fprintf(b, "  [!] %-9s  %s\n", c.Name, doctor.Says(c))
		if r.Failed.Cause != nil && r.Failed.Attr("check") == c.Name {
			fmt.Fprintf(b, "      %s\n", printable(r.Failed.Cause.Error()))
		}
		if try := doctor.Try(c.Name); try != tried {
			fmt.Fprintf(b, "      -> %s\n", try)
			tried = try
		}
	}
}

// heldText says at how many tokens memory was measured.
func heldText(f doctor.Findings) string {
	if f.Projected() {
		return fmt.Sprintf("all %d tokens, as %d of them show", f.Context, f.Held)
	}
	return fmt.Sprintf("all %d tokens held", f.Held)
}

// failedByCheck reports whether the last check says why the forward ended.
func failedByCheck(f doctor.Findings) bool {
	for _, c := range f.Checks {
		if !c.Passed {
			return true
		}
	}
	return false
}

// verdict is the outcome in one phrase.
func verdict(r reports.Report) string {
	if r.Failed == nil {
		return fmt.Sprintf("well, in %d ms", r.Findings.TookMicros/1000)
	}
	var names []string
	for _, c := range r.Findings.Checks {
		if !c.Passed {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		names = []string{string(r.Failed.Code)}
	}
	return "failed: " + strings.Join(names, ", ")
}

// keptText shows the last report in full, and a line of each before it.
func keptText(kept []reports.Report, damaged int, now time.Time) string {
	var b strings.Builder
	for i, r := range kept {
		when := fmt.Sprintf("%s ago", spell(now.Sub(r.At)))
		switch i {
		case 0:
			fmt.Fprintf(&b, "found %s:\n%s", when, reportText(r))
			continue
		case 1:
			b.WriteString("\nbefore it:\n")
		}
		fmt.Fprintf(&b, "  %14s  %s, layers %d to %d: %s\n", when, r.Model, r.Findings.Layers[0], r.Findings.Layers[1]-1, verdict(r))
	}
	if damaged > 0 {
		fmt.Fprintf(&b, "\n%d %s in the folder cannot be read\n", damaged, plural(damaged, "report"))
	}
	return b.String()
}

// machineText says for people how this machine is.
func machineText(facts []machineFact) string {
	var b strings.Builder
	for _, f := range facts {
		mark := map[string]string{provenFact: "x", failedFact: "!"}[f.State]
		if mark == "" {
			mark = " "
		}
		lines := strings.Split(f.Detail, "\n")
		fmt.Fprintf(&b, "  [%s] %-9s  %s\n", mark, f.Name, printable(lines[0]))
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "                 %s\n", printable(line))
		}
		if f.Fault != nil {
			fmt.Fprintf(&b, "      -> %s\n", indent(printable(f.Fault.Hint())))
		}
	}
	return trimLines(b.String())
}
