package node

import (
	"context"

	"muster/internal/core/stage"
)

// takeDown does one part of the teardown and confirms it. What was done before
// is not done again.
func (n *node) takeDown(e stage.TakeDown) {
	w := n.work
	n.tasks.Go(func() {
		if w.takeDown(e.Part) {
			n.tell(worked{stage.PartDone(e)})
		}
	})
	if e.Part == stage.StopWorker && n.attempt != nil && w.crew != nil && n.attempt.crew == w.crew {
		n.attempt.crew = nil // its end is the teardown's now
	}
}

// takeDown reports whether the part is done. False is no fault yet: the core
// asks again.
func (w *work) takeDown(p stage.Part) bool {
	switch p {
	case stage.QuiescePumps:
		w.cancel()
		w.tasks.Wait()
		if w.arrival != nil {
			w.arrival.Close()
		}
	case stage.UninstallRings:
		if w.crew != nil {
			w.crew.detach()
		}
	case stage.StopWorker:
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		if w.crew != nil && w.crew.stop(ctx) != nil {
			return false
		}
		w.closeSlices()
	case stage.ReleaseLeases:
		return w.crew == nil || w.crew.release() == nil
	}
	return true
}
