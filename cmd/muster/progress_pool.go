package main

import (
	"fmt"
	"strings"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
)

// nodeLine is what a node's own event says to people; "" says nothing.
func nodeLine(e event.Event) string {
	switch e := e.(type) {
	case event.BootStarted:
		return fmt.Sprintf("boot %s, attempt %d: proving", e.Boot.Short(), e.Attempt)
	case event.FactProven:
		how := "proven"
		if e.Deferred {
			how = "deferred"
		}
		return fmt.Sprintf("%-12s %s in %s: %s", e.Fact, how, e.Took.Round(time.Millisecond), e.Detail)
	case event.FactFailed:
		return fmt.Sprintf("%-12s failed after %s: %s", e.Fact, e.Took.Round(time.Millisecond), e.Fault.Error())
	case event.NodeBecameAvailable:
		return "available: every fact is proven"
	case event.NodeFaulted:
		return "not available: " + e.Fault.Error() + "\n          -> " + e.Fault.Hint()
	case event.NodeStatusUnwritten:
		return e.Fault.Error()
	case event.ReportUnwritten:
		return e.Fault.Error()
	case event.NodeLeft:
		return "left: " + e.Reason
	case event.StagePhaseChanged:
		line := "stage " + e.Phase
		if e.Run.IsZero() {
			line = "offer: " + e.Phase
		}
		if e.Fault != nil {
			line += ": " + e.Fault.Error()
		}
		return line
	case event.OfferDelayed:
		return fmt.Sprintf("offer: not held, tried again in %.1f s: %s", float64(e.AgainMillis)/1000, e.Fault.Error())
	case event.StageTornDown:
		return "nothing of the stage is left"
	}
	return ""
}

// poolLine is what an orchestrator's event says to people; "" says nothing.
func poolLine(e event.Event) string {
	switch e := e.(type) {
	case event.PoolDefined:
		return fmt.Sprintf("pool %s, epoch %d: %d %s", e.Pool, e.Epoch, e.Nodes, plural(e.Nodes, "node"))
	case event.NodeAcknowledged:
		return fmt.Sprintf("%s: known, at %s, boot %s", e.Label, e.Address, e.Boot.Short())
	case event.NodeRefused:
		return fmt.Sprintf("node %s refused: %s", e.Node.Short(), e.Fault.Error())
	case event.NodeReportedAvailable:
		if e.Worker == "deferred" {
			return fmt.Sprintf("%s: available, %s free; its worker is deferred to its first stage", e.Label, bytesText(int64(e.MemoryAvailable)))
		}
		return fmt.Sprintf("%s: available, %s free, %s", e.Label, bytesText(int64(e.MemoryAvailable)), e.Device)
	case event.NodeReportedFault:
		return faultOf(e.Label, e.Fault)
	case event.NodeReportedLeaving:
		return e.Label + ": leaves"
	case event.PoolPhaseChanged:
		return fmt.Sprintf("pool: %s", e.To)
	case event.PoolBecameReady:
		return fmt.Sprintf("pool ready: %d %s stable for the window", e.Nodes, plural(e.Nodes, "node"))
	case event.PoolReadinessLost:
		return "pool no longer ready: " + e.Fault.Error()
	case event.PoolFormationEnded:
		return "pool not formed: " + e.Fault.Error()
	}
	return runLine(e)
}

// faultOf says whose fault it is, once.
func faultOf(label string, f *fault.Fault) string {
	if f.Node == label {
		return f.Error()
	}
	return label + ": " + f.Error()
}

// runLine is what an event of a run says to people; "" says nothing.
func runLine(e event.Event) string {
	switch e := e.(type) {
	case event.RunPlanned:
		var b strings.Builder
		fmt.Fprintf(&b, "run %s planned", e.Run.Short())
		for _, st := range e.Stages {
			fmt.Fprintf(&b, "\n%10s%s: layers %d to %d, %s; %s", "", st.Label, st.Layers[0], st.Layers[1]-1, bytesText(int64(st.Bytes)), st.Reason)
		}
		return b.String()
	case event.RunStageReady:
		return fmt.Sprintf("%s: layers %d to %d ready, %s resident, %.2f ms a token on %d %s", e.Label, e.Layers[0], e.Layers[1]-1,
			bytesText(int64(e.ResidentBytes)), float64(e.TokenMicros)/1000, e.Threads, plural(e.Threads, "thread"))
	case event.LeaseGranted:
		what := "admitted"
		if e.Run.IsZero() {
			what = "offered and admitted"
		}
		return fmt.Sprintf("%s: layers %d to %d %s: %s", e.Label, e.Layers[0], e.Layers[1]-1, what, findings(e.Checks))
	case event.OfferReleased:
		return fmt.Sprintf("%s: its offer of layers %d to %d is released: %s", e.Label, e.Layers[0], e.Layers[1]-1, e.Reason)
	case event.OfferFailed:
		return faultOf(e.Label, e.Fault)
	case event.RegistrationRefused:
		return faultOf(e.Label, e.Fault)
	case event.RunStageFaulted:
		return faultOf(e.Label, e.Fault)
	case event.RunServed:
		return fmt.Sprintf("run %s serves, %d ms after the pool was ready", e.Run.Short(), e.Took.Milliseconds())
	case event.RunEnded:
		line := fmt.Sprintf("run %s %s", e.Run.Short(), e.Outcome)
		if e.Fault != nil {
			line += ": " + e.Fault.Error()
		}
		return line
	}
	return ""
}
