package edge

import (
	"time"

	"muster/internal/id"
	"muster/internal/wire"
)

// Config is one side of an edge.
type Config struct {
	Run     id.RunID
	Edge    id.EdgeID
	Attempt uint32
	Peer    id.NodeID // the node at the other end

	Kind   wire.Kind   // of every record
	Limits wire.Limits // of every record

	// Within is how long the rest of a record may be silent once the record
	// has begun. Default 4 s: less than the orchestrator waits for a step, so that
	// who owes the rest is told by who sees it.
	Within time.Duration
	// Meter counts what passes; nil where nobody looks.
	Meter *Meter
}

const (
	defaultWithin = 4 * time.Second

	// slowRate is how fast a record must come at least, in bytes a second,
	// beyond the time of Within: large records may take their time on slow
	// links, and a byte now and then does not hold an edge for ever.
	slowRate = 256 << 10

	// window is the bytes that a pump reads at once.
	window = 256 << 10
)

func (c Config) filled() Config {
	if c.Within <= 0 {
		c.Within = defaultWithin
	}
	if c.Meter == nil {
		c.Meter = new(Meter)
	}
	return c
}

func (c Config) preamble() Preamble {
	return Preamble{Run: c.Run, Edge: c.Edge, Attempt: c.Attempt}
}
