package event

import (
	"muster/internal/fault"
	"muster/internal/id"
)

// LeaseGranted: a node's report was accepted, and its shard may be routed to.
type LeaseGranted struct {
	Node    id.NodeID `json:"node"`
	Label   string    `json:"name"`
	Boot    id.BootID `json:"boot"`
	Purpose string    `json:"purpose"`      // stage or offer
	Run     id.RunID  `json:"run,omitzero"` // of a stage
	Layers  [2]int    `json:"layers"`       // [start,end)
	Lease   string    `json:"lease"`        // the challenge that its report answered
	Checks  []Check   `json:"checks"`       // the judgement of its forward
}

// Check is one figure of a doctor: probe.Check.
type Check struct {
	Name   string  `json:"name"`
	Passed bool    `json:"passed"`
	Got    float64 `json:"got"`
	Limit  float64 `json:"limit"`
}

// StageExamined: a stage has run a real forward, and its doctor has judged it.
type StageExamined struct {
	Run        id.RunID     `json:"run"`
	Layers     [2]int       `json:"layers"` // [start,end)
	Checks     []Check      `json:"checks"`
	TookMicros int64        `json:"took_micros"`
	Fault      *fault.Fault `json:"fault,omitempty"` // why it failed; nil where it passed
}

// StageAdmitted: the tracker holds a route to a stage.
type StageAdmitted struct {
	Run         id.RunID `json:"run"`
	Layers      [2]int   `json:"layers"`   // [start,end)
	LastsMillis int64    `json:"lasts_ms"` // unless renewed
}

// ReportUnwritten: what a doctor found could not be kept.
type ReportUnwritten struct {
	Fault *fault.Fault `json:"fault"`
}

// LeaseEnded: a node's shard may not be routed to any more.
type LeaseEnded struct {
	Node   id.NodeID    `json:"node"`
	Label  string       `json:"name"`
	Boot   id.BootID    `json:"boot"`
	Run    id.RunID     `json:"run,omitzero"`
	Layers [2]int       `json:"layers"`
	Lease  string       `json:"lease"`
	Fault  *fault.Fault `json:"fault"` // why
}

// RegistrationRefused: a node's report was not accepted.
type RegistrationRefused struct {
	Node  id.NodeID    `json:"node"`
	Label string       `json:"name"`
	Fault *fault.Fault `json:"fault"`
}

// Name implements Event.
func (LeaseGranted) Name() string { return "admit.lease_granted" }

// Name implements Event.
func (StageExamined) Name() string { return "stage.examined" }

// Name implements Event.
func (StageAdmitted) Name() string { return "stage.admitted" }

// Name implements Event.
func (ReportUnwritten) Name() string { return "node.report_unwritten" }

// Name implements Event.
func (LeaseEnded) Name() string { return "admit.lease_ended" }

// Name implements Event.
func (RegistrationRefused) Name() string { return "admit.registration_refused" }
