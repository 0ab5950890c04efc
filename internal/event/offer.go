package event

import (
	"muster/internal/fault"
	"muster/internal/id"
)

// OfferReleased: a plan was made without what a node's operator offers.
type OfferReleased struct {
	Run    id.RunID  `json:"run"`
	Node   id.NodeID `json:"node"`
	Label  string    `json:"name"`
	Layers [2]int    `json:"layers"` // [start,end)
	Reason string    `json:"reason"`
}

// OfferFailed: what a node's operator offers cannot be held, or could not be.
type OfferFailed struct {
	Node   id.NodeID    `json:"node"`
	Label  string       `json:"name"`
	Layers [2]int       `json:"layers"` // [start,end)
	Fault  *fault.Fault `json:"fault"`
}

// OfferDelayed: what this node's operator offers cannot be held now; it is tried
// again.
type OfferDelayed struct {
	Layers      [2]int       `json:"layers"` // [start,end)
	Fault       *fault.Fault `json:"fault"`
	AgainMillis int64        `json:"again_ms"` // from now
}

// Name implements Event.
func (OfferDelayed) Name() string { return "offer.delayed" }

// Name implements Event.
func (OfferReleased) Name() string { return "offer.released" }

// Name implements Event.
func (OfferFailed) Name() string { return "offer.failed" }
