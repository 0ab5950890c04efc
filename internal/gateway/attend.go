package gateway

import (
	"context"
	"errors"
	"io"
	"time"
)

// How long a client waits for the next sign of life of an answer that comes in
// lines, of which there is one every beatEvery, and for one that comes at once.
const (
	silentWithin = 10 * time.Second
	callWithin   = stopWithin + 10*time.Second
)

var errSilent = errors.New("it says nothing any more")

// attended is the body of an answer that is given up once it has been silent.
type attended struct {
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	within time.Duration
	timer  *time.Timer
}

func attend(ctx context.Context, within time.Duration) *attended {
	a := &attended{within: within}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(within, func() { a.cancel(errSilent) })
	return a
}

func (a *attended) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	if n > 0 {
		a.timer.Reset(a.within)
	}
	if err != nil && err != io.EOF && a.fellSilent() {
		err = errSilent
	}
	return n, err
}

func (a *attended) fellSilent() bool { return errors.Is(context.Cause(a.ctx), errSilent) }

func (a *attended) Close() error {
	defer a.end()
	return a.body.Close()
}

func (a *attended) end() {
	a.timer.Stop()
	a.cancel(nil)
}
