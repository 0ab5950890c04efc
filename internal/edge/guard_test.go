package edge

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A parent that has ended counts before its end has reached the guard.
func TestAParentsEndCountsAtOnce(t *testing.T) {
	parent, stop := context.WithCancelCause(context.Background())
	g := newGuard(context.WithoutCancel(parent), func(time.Time) error { return nil }) // it will never be told
	defer g.release()
	g.parent = parent
	if why := g.why(); why != nil {
		t.Errorf("it lives and says %v", why)
	}
	stopped := errors.New("stopped")
	stop(stopped)
	if why := g.why(); !errors.Is(why, stopped) {
		t.Errorf("why is %v", why)
	}
}
