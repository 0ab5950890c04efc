package edge

import (
	"context"
	"errors"
	"time"
)

// The causes with which a guard's context ends, beside those of its parent.
var (
	errOverdue = errors.New("the rest of a record did not come")
	errGone    = errors.New("the stream has ended")
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// guard ends blocked calls: those on a ring by its context, those on a stream
// by a deadline that has passed once the context ends.
type guard struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends the context as overdue; runs inside records only
	stop   func() bool
	ran    chan struct{} // closed when the deadline has been set
	reset  func(time.Time) error
}

func newGuard(parent context.Context, deadline func(time.Time) error) *guard {
	g := &guard{parent: parent, ran: make(chan struct{}), reset: deadline}
	g.ctx, g.cancel = context.WithCancelCause(parent)
	g.timer = time.AfterFunc(time.Hour, func() { g.cancel(errOverdue) })
	g.timer.Stop()
	g.stop = context.AfterFunc(g.ctx, func() {
		defer close(g.ran)
		_ = deadline(past) // fails only where the stream has ended, which ends the call too
	})
	return g
}

// release ends the guard; nothing of it runs afterwards, and the stream has no
// deadline.
func (g *guard) release() {
	g.timer.Stop()
	if !g.stop() {
		<-g.ran
		_ = g.reset(time.Time{}) // as above
	}
	g.cancel(nil)
}

// watch ends the guard's context when done is closed. The channel it returns is
// closed when it watches no longer, which release brings about.
func (g *guard) watch(done <-chan struct{}) <-chan struct{} {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-done:
			g.cancel(errGone)
		case <-g.ctx.Done():
		}
	}()
	return watched
}

// why is what ended the guard's context, nil where it lives. Its parent's end
// reaches others first where they wait for the parent: what they do to the
// stream then is no loss of it.
func (g *guard) why() error {
	if why := context.Cause(g.ctx); why != nil {
		return why
	}
	return context.Cause(g.parent)
}
