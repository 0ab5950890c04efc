package edge

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

const component = "edge"

// way is the direction of an edge, as faults say it.
type way string

const (
	toward way = "to"
	from   way = "from"
)

// fault makes a fault of this edge.
func (c Config) fault(w way, code fault.Code, pairs ...any) *fault.Fault {
	return fault.New(code, component, append([]any{"edge", c.Edge.Short(), "way", w, "peer", c.Peer.Short()}, pairs...)...)
}

// blame names the peer as the one who failed.
func (c Config) blame(f *fault.Fault) *fault.Fault {
	f.Node = c.Peer.Short()
	return f
}

// sender names the one who sent what is wrong: the peer, or nobody where it came
// from the own ring, whose owner knows its node.
func (c Config) sender(w way, f *fault.Fault) *fault.Fault {
	if w == from {
		return c.blame(f)
	}
	return f
}

// lost is the fault of a stream that failed with err, nil where it does not
// say why.
func (c Config) lost(w way, err error) error {
	var f *fault.Fault
	if errors.As(err, &f) && f.Attr("stream_code") == strconv.Itoa(int(CodeRefused)) {
		return c.blame(c.fault(w, fault.EdgeStreamRefused)).Because(err)
	}
	return c.blame(c.fault(w, fault.EdgeStreamDropped)).Because(err)
}

// cut is the fault of a stream that ended without an end mark.
func (c Config) cut(what string) error {
	return c.blame(c.fault(from, fault.EdgeStreamEnded, "what", what)).Because(io.ErrUnexpectedEOF)
}

// refused is the fault of a record that may not pass.
func (c Config) refused(w way, what string) error {
	return c.sender(w, c.fault(w, fault.EdgeRecordRefused, "what", what))
}

// unsound is what refused gives for a record that the codec refuses.
func (c Config) unsound(w way, err error) error {
	what := err.Error()
	if f := fault.From(err); f.Code == fault.StageRecordInvalid {
		what = f.Attr("what")
	}
	return c.refused(w, what)
}

// wrong is the fault of a kind or a sequence that may not come next; nil where
// both are right.
func (c Config) wrong(w way, kind wire.Kind, sequence, want uint64) error {
	if kind != c.Kind {
		return c.refused(w, fmt.Sprintf("its kind is %d where %d belongs", kind, c.Kind))
	}
	if sequence == want {
		return nil
	}
	return c.sender(w, c.fault(w, fault.EdgeSequenceBroken, "got", sequence, "want", want))
}

func (c Config) badEnd(what string) error {
	return c.blame(c.fault(from, fault.EdgeEndBroken, "what", what))
}

func (c Config) overdue(w way, got int, waited time.Duration) error {
	return c.sender(w, c.fault(w, fault.EdgeRecordOverdue, "got", got, "waited", waited.Round(time.Millisecond)))
}
