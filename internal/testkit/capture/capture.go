// Package capture keeps what nodes ask a tracker for, as it came by their
// streams, so that a test can show what was asked and what never was.
package capture

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"muster/internal/id"
	"muster/internal/tracker/api"
)

// Request is one request as it came.
type Request struct {
	Peer   id.NodeID
	Method string // "" where what came is no request of HTTP
	Path   string
	Body   []byte // as much as has come
}

// Line is the request without its body.
func (r Request) Line() string { return r.Method + " " + r.Path }

// Requests are those of all streams that were tapped. The zero value has none.
type Requests struct {
	mu    sync.Mutex
	tapes []*tape
}

// Serve answers one stream, as tracker.Tracker does.
type Serve = func(ctx context.Context, peer id.NodeID, s api.Stream)

// Tap is serve, with all that is read from its streams kept.
func (r *Requests) Tap(serve Serve) Serve {
	return func(ctx context.Context, peer id.NodeID, s api.Stream) {
		t := &tape{Stream: s, peer: peer}
		r.mu.Lock()
		r.tapes = append(r.tapes, t)
		r.mu.Unlock()
		serve(ctx, peer, t)
	}
}

// All lists the requests that have come, in the order of their streams.
func (r *Requests) All() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Request
	for _, t := range r.tapes {
		all = append(all, t.requests()...)
	}
	return all
}

// Lines lists the method and path of each request.
func (r *Requests) Lines() []string {
	var lines []string
	for _, q := range r.All() {
		lines = append(lines, q.Line())
	}
	return lines
}

// tape is a stream that keeps what is read from it.
type tape struct {
	api.Stream
	peer id.NodeID

	mu   sync.Mutex
	read bytes.Buffer
}

func (t *tape) Read(b []byte) (int, error) {
	n, err := t.Stream.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read.Write(b[:n])
	return n, err
}

func (t *tape) requests() (all []Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := bufio.NewReader(bytes.NewReader(t.read.Bytes())); ; {
		if _, err := rest.Peek(1); err != nil {
			return all
		}
		r, err := http.ReadRequest(rest)
		if err != nil {
			return append(all, Request{Peer: t.peer, Body: t.read.Bytes()})
		}
		body, _ := io.ReadAll(r.Body) // half a body is what has come
		all = append(all, Request{Peer: t.peer, Method: r.Method, Path: r.URL.Path, Body: body})
	}
}
