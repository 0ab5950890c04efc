package gateway

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"muster/internal/fault"
)

// Bounds of an answer in lines: an empty one shows that it lives, and a client
// that takes nothing for so long has gone.
const (
	beatEvery   = 2 * time.Second
	writeWithin = 10 * time.Second
)

// lines writes objects a line, each at once.
type lines struct {
	flush *http.ResponseController

	mu    sync.Mutex
	w     http.ResponseWriter
	begun bool
}

func newLines(w http.ResponseWriter) *lines {
	return &lines{w: w, flush: http.NewResponseController(w)}
}

// beat writes empty lines until stop is called, which waits for the last.
func (l *lines) beat() (stop func()) {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if !l.mu.TryLock() {
					continue // a line is under way: a sign of life by itself
				}
				err := l.write([]byte("\n"))
				l.mu.Unlock()
				if err != nil {
					return
				}
			}
		}
	})
	return func() {
		close(done)
		beating.Wait()
	}
}

func (l *lines) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(append(line, '\n'))
}

// write is for who holds mu.
func (l *lines) write(line []byte) error {
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.begun = true
	}
	if err := l.flush.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	if _, err := l.w.Write(line); err != nil {
		return err
	}
	return l.flush.Flush()
}

// refuse answers with a fault: by the status where nothing was written yet.
func (l *lines) refuse(err error) {
	l.mu.Lock()
	begun := l.begun
	l.mu.Unlock()
	if !begun {
		refuse(l.w, err)
		return
	}
	_ = l.send(Line{Fault: fault.From(err)}) // the client has gone: nobody to tell
}
