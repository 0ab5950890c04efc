// Package api is what nodes and their tracker say to one another: HTTP with
// JSON bodies, one request a stream, over an endpoint that has proven the keys
// of both. docs/api.md shows it with an example of each.
//
//	POST   /v1/nodes/challenge        ChallengeRequest   ChallengeAnswer
//	POST   /v1/nodes/register         admit.Signed       LeaseAnswer
//	POST   /v1/nodes/renew            RenewRequest       LeaseAnswer
//	DELETE /v1/nodes/{node}?lease=L                      {}
//	GET    /v1/nodes                                     NodesAnswer
//
// A node speaks for itself alone: the node meant is the one whose key the
// connection has proven. What is refused is answered by a Problem. Bodies have
// one form, that of admit.EncodeStrict.
//
// It opens nothing and decides nothing.
package api

import (
	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
)

// Protocol is the name under which endpoints speak this.
const Protocol = "muster/track/1"

// The paths.
const (
	NodesPath     = "/v1/nodes"
	ChallengePath = "/v1/nodes/challenge"
	RegisterPath  = "/v1/nodes/register"
	RenewPath     = "/v1/nodes/renew"
)

// The bounds of bodies, in bytes.
const (
	MostRequest = admit.MostBytes
	MostAnswer  = 4 << 20
)

// ChallengeRequest asks for a challenge.
type ChallengeRequest struct {
	Boot id.BootID `json:"boot"` // of the node that asks
}

// ChallengeAnswer is what a report has to bind.
type ChallengeAnswer struct {
	Challenge admit.Challenge `json:"challenge"`
	ValidMS   int64           `json:"valid_ms"` // from its giving to the acceptance of a report
}

// RenewRequest makes a lease last again.
type RenewRequest struct {
	Boot  id.BootID       `json:"boot"`
	Lease admit.Challenge `json:"lease"`
	admit.Digests
}

// LeaseAnswer is a lease that was granted or renewed.
type LeaseAnswer struct {
	Lease   admit.Challenge `json:"lease"`    // names it in renewals
	LastsMS int64           `json:"lasts_ms"` // from now, unless renewed
	RenewMS int64           `json:"renew_ms"` // wait so long before a renewal
}

// NodesAnswer lists the nodes that the tracker knows, by id.
type NodesAnswer struct {
	Nodes []Node `json:"nodes"`
}

// Node is how a node stands with the tracker.
type Node struct {
	Node     id.NodeID    `json:"node"`
	Route    *Route       `json:"route,omitempty"` // nil: none that is live
	Fault    *fault.Fault `json:"fault,omitempty"` // the latest refusal, or why its lease ended
	Failures int          `json:"failures"`        // refusals in a row
	HeldMS   int64        `json:"held_ms"`         // until it may try again
}

// Route is a live lease.
type Route struct {
	Lease admit.Challenge `json:"lease"`
	admit.Binding
	Capacity admit.Capacity `json:"capacity"`
	Speed    admit.Speed    `json:"speed"`
	LastsMS  int64          `json:"lasts_ms"`
}

// Nothing is the answer where there is nothing to say.
type Nothing struct{}
