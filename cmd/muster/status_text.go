package main

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/id"
	"muster/internal/orch"
)

// statusText says for people how the pool is: whether it serves, what stands in
// the way and what to do about it, and then each node and the run.
func statusText(s orch.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s, epoch %d: %s\n", s.Pool.Name, s.Pool.Epoch, headline(s))
	fmt.Fprintf(&b, "model %s: %s, %d layers, %s\n", s.Model.Name, s.Model.Architecture, s.Model.Layers, bytesText(s.Model.Bytes))
	fmt.Fprintf(&b, "orchestrator %s at %s, up %s\n", s.Orchestrator.Short(), s.Address, spell(s.Up))
	blockersText(&b, s)
	nodesText(&b, s)
	if s.Run != nil {
		runText(&b, *s.Run)
	}
	return trimLines(b.String())
}

// headline is the state of the pool in one phrase.
func headline(s orch.Status) string {
	blocked := blockedNodes(s)
	switch {
	case s.Serving && len(blocked) == 0:
		return "serving"
	case s.Serving:
		return "serving, with " + strings.Join(blocked, ", ") + " in trouble"
	case struck(s):
		return "not serving, run " + s.Run.Run.Short() + " faulted and is " + s.Run.Phase
	case runs(s):
		return "not serving, run " + s.Run.Run.Short() + " is " + s.Run.Phase
	case s.Pool.Phase == "settling":
		return fmt.Sprintf("not serving, settling: %s of the window of %s left", spell(s.Pool.Left), spell(s.Pool.Window))
	case len(blocked) > 0:
		return fmt.Sprintf("not serving, %s: %d of %d %s not ready: %s", s.Pool.Phase,
			len(blocked), len(s.Nodes), plural(len(s.Nodes), "node"), strings.Join(blocked, ", "))
	}
	return "not serving, " + s.Pool.Phase
}

// runs reports whether a run holds the pool.
func runs(s orch.Status) bool {
	return s.Run != nil && s.Run.Outcome == "open" && s.Run.Phase != "idle"
}

// struck reports whether a run has faulted and still holds the pool: what its
// nodes are then follows from that.
func struck(s orch.Status) bool {
	return !s.Serving && s.Run != nil && s.Run.Fault != nil && s.Run.Phase != "done"
}

// blockedNodes names the nodes that something stands against, in the pool's
// order.
func blockedNodes(s orch.Status) []string {
	var names []string
	for i, n := range s.Nodes {
		if blocks(s, n.Node) {
			names = append(names, nodeName(i, n))
		}
	}
	return names
}

func blocks(s orch.Status, n id.NodeID) bool {
	for _, b := range s.Pool.Blockers {
		if b.Node == n {
			return true
		}
	}
	return false
}

// nodeName is a node's name and short id; one without a name has its place.
func nodeName(place int, n orch.NodeStatus) string {
	name := n.Name
	if name == "" || name == n.Node.Short() {
		name = fmt.Sprintf("node %d", place+1)
	}
	return name + " (" + n.Node.Short() + ")"
}

// blockersText lists what stands in the way, with what to do about each.
func blockersText(b *strings.Builder, s orch.Status) {
	names := map[id.NodeID]string{}
	for i, n := range s.Nodes {
		names[n.Node] = nodeName(i, n)
	}
	title := "\nin the way:\n"
	if struck(s) {
		fmt.Fprintf(b, "%s  run %s: %s\n      -> %s\n", title, s.Run.Run.Short(), s.Run.Fault.Error(), s.Run.Fault.Hint())
		title = "  and after it:\n"
	}
	for _, blocker := range s.Pool.Blockers {
		ofPool := blocker.Node.IsZero()
		if ofPool && blocker.Do == "" && (runs(s) || struck(s) || s.Pool.Phase == "settling") {
			continue // as it should be, and in the headline
		}
		name := names[blocker.Node]
		if name == "" {
			name = blocker.Name
		}
		if ofPool {
			name = "the pool"
		}
		fmt.Fprintf(b, "%s  %s: %s\n", title, name, blocker.What)
		if blocker.Do != "" {
			fmt.Fprintf(b, "      -> %s\n", blocker.Do)
		}
		title = ""
	}
}

// nodesText is a line for each node, an exclamation mark before those that are
// not well, and below it the facts that are not proven.
func nodesText(b *strings.Builder, s orch.Status) {
	if len(s.Nodes) == 0 {
		return
	}
	width := 0
	for i, n := range s.Nodes {
		width = max(width, len([]rune(nodeName(i, n))))
	}
	b.WriteString("\nnodes:\n")
	for i, n := range s.Nodes {
		mark := " "
		if blocks(s, n.Node) || n.Unfit != nil {
			mark = "!"
		}
		fmt.Fprintf(b, "%s %-*s  %-9s  %s\n", mark, width, nodeName(i, n), nodeState(s, n), strings.Join(nodeFigures(n), ", "))
		switch {
		case n.Ended != nil:
			fmt.Fprintf(b, "      ended by its offer: %s\n      -> %s\n", n.Ended.Error(), n.Ended.Hint())
		case n.Unfit != nil:
			fmt.Fprintf(b, "      failed its doctor: %s\n      -> %s\n", n.Unfit.Error(), n.Unfit.Hint())
		}
		if o := n.Offer; o != nil {
			fmt.Fprintf(b, "      offers layers %d to %d: %s\n", o.Layers[0], o.Layers[1]-1, offerState(o))
		}
		for _, f := range n.Facts {
			if f.State != "proven" && f.State != "deferred" {
				factText(b, f.Name, f.State, f.Since, f.Detail)
			}
		}
	}
}

func offerState(o *orch.OfferStatus) string {
	switch {
	case o.Released != "" && o.Admitted:
		return "admitted, and released by the plan: " + o.Released
	case o.Admitted:
		return "admitted"
	}
	return o.Phase
}

func factText(b *strings.Builder, name, state string, since time.Duration, detail string) {
	fmt.Fprintf(b, "      %-12s  %-8s  %8s  %s\n", name, state, spell(since), detail)
}

// nodeState is the one word that matters most of a node.
func nodeState(s orch.Status, n orch.NodeStatus) string {
	switch {
	case n.Swim == "left" || n.Swim == "dead" || n.Swim == "suspect":
		return n.Swim
	case n.Boot.IsZero():
		return "not seen"
	case n.Fault != nil:
		return "faulted"
	case !n.Available:
		return "proving"
	case n.Unfit != nil:
		return "unfit"
	case blocks(s, n.Node):
		return "not ready"
	}
	return "ready"
}

func nodeFigures(n orch.NodeStatus) []string {
	var all []string
	switch {
	case n.Boot.IsZero():
		return nil
	case n.Answered < 0:
		all = append(all, "has not answered yet")
	default:
		all = append(all, "answered "+spell(n.Answered)+" ago")
	}
	if n.MemoryTotal > 0 {
		all = append(all, bytesText(int64(n.MemoryAvailable))+" free")
	}
	if len(n.Devices) > 0 {
		all = append(all, n.Devices[0])
	}
	if n.Deferred {
		all = append(all, "worker deferred: the first stage proves it")
	}
	return all
}

func runText(b *strings.Builder, r orch.RunStatus) {
	fmt.Fprintf(b, "\nrun %s: %s for %s", r.Run.Short(), r.Phase, spell(r.Since))
	if r.Outcome != "open" {
		fmt.Fprintf(b, ", it %s", map[string]string{"completed": "was completed", "stopped": "was stopped", "faulted": "faulted"}[r.Outcome])
	}
	b.WriteByte('\n')
	if r.Fault != nil {
		fmt.Fprintf(b, "      %s\n      -> %s\n", r.Fault.Error(), r.Fault.Hint())
	}
	for _, st := range r.Stages {
		fmt.Fprintf(b, "  %s: layers %d to %d, %s", st.Name, st.Layers[0], st.Layers[1]-1, st.Progress)
		switch {
		case st.ResidentBytes > 0:
			fmt.Fprintf(b, ", %s, %.2f ms a token", bytesText(int64(st.ResidentBytes)), float64(st.TokenMicros)/1000)
		case st.Total > 0:
			fmt.Fprintf(b, ", %s %d %%", st.Phase, 100*st.Done/st.Total)
		}
		b.WriteByte('\n')
	}
}

// spell is a time for people: seconds with a tenth, and minutes, hours and days
// where it is long.
func spell(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
