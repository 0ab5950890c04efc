package worker

import (
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/wire"
)

// faultsHeld is how many unsolicited faults wait to be looked at. A pump tells
// one and ends, so a worker with more is out of order.
const faultsHeld = 16

// hear reads stdout to its end. A line that breaks the protocol ends the
// process.
func (w *Worker) hear() {
	lines := wire.NewLineReader(w.pipes.stdout, wire.LineLimit)
	for {
		var r wire.Reply
		if err := lines.Next(&r); err != nil {
			w.unheard(err)
			return
		}
		if what := w.take(r); what != "" {
			w.condemn(fault.New(fault.WorkerProtocolBroken, w.spec.Name, "what", what))
			return
		}
	}
}

// take sorts a reply. It says what is wrong with one that cannot be.
func (w *Worker) take(r wire.Reply) string {
	if r.ID != 0 {
		return w.calls.take(r)
	}
	if r.Fault == nil || r.Progress != nil || r.Opened != nil || r.Loaded != nil || r.Tokens != nil || r.Vocab != nil || r.Stats != nil {
		return "a reply to nothing that is no fault"
	}
	select {
	case w.faults <- w.own(r.Fault):
		return ""
	default:
		return "more faults than anybody could read"
	}
}

// unheard deals with the end of stdout. Usually the process is ending; one that
// lives on without a voice is ended.
func (w *Worker) unheard(err error) {
	var f *fault.Fault
	if errors.As(err, &f) {
		f.Component = w.spec.Name
		w.condemn(f)
		return
	}
	t := time.NewTimer(dying)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
		w.condemn(fault.New(fault.WorkerProtocolBroken, w.spec.Name, "what", "its stdout ended and it lives").Because(err))
	}
}
