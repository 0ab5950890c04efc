package member

import "sync"

// tasks are what has been started and must end before a Close is done.
type tasks struct {
	mu      sync.Mutex
	closed  bool
	started sync.WaitGroup
}

// begin counts one more, unless none may start any longer.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.started.Add(1)
	return true
}

func (t *tasks) end() { t.started.Done() }

// start runs f in a goroutine of its own, unless none may start any longer.
func (t *tasks) start(f func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		f()
	}()
	return true
}

// shut lets none start any longer; it reports whether it was the first to.
func (t *tasks) shut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.closed
	t.closed = true
	return first
}

func (t *tasks) wait() { t.started.Wait() }
