// Package client asks a tracker on behalf of one node. Whoever can call it can
// register a shard: internal/archtest holds who imports it.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/tracker/api"
)

const component = "tracker client"

// callWithin is how long a call waits whose context has no deadline.
const callWithin = 10 * time.Second

// mostHead is how long the head of an answer may be, in bytes.
const mostHead = 16 << 10

// Client makes calls, each on a stream of its own. It may be used by many at
// once. Errors of every call are faults:
//
//	what the tracker answered, or why no stream could be opened
//	tracker.call_overdue      ctx's deadline came first
//	tracker.connection_lost   the stream ended first
//	tracker.answer_invalid    the answer is not understood
//
// or ctx's cause, where it was cancelled. Nothing is sent twice.
type Client struct {
	node, tracker id.NodeID
	open          func(ctx context.Context) (api.Stream, error)
	http          *http.Client
}

// New makes a client of node over streams that open opens to the tracker, by
// api.Protocol. Errors of open are to be faults.
func New(node, tracker id.NodeID, open func(ctx context.Context) (api.Stream, error)) *Client {
	return &Client{node: node, tracker: tracker, open: open, http: &http.Client{
		// One request a stream: streams cost nothing, and none is held open.
		Transport: &http.Transport{
			DialContext: opened, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: mostHead,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type connKey struct{}

// opened is the stream of a call. The call itself opens it: net/http goes on
// with dials that nobody waits for any more.
func opened(ctx context.Context, _, _ string) (net.Conn, error) {
	return ctx.Value(connKey{}).(*api.Conn), nil
}

// unopened is why there is no stream.
type unopened struct{ error }

// Challenge asks for a challenge, for a report of this boot.
func (c *Client) Challenge(ctx context.Context, boot id.BootID) (a api.ChallengeAnswer, err error) {
	err = c.call(ctx, http.MethodPost, api.ChallengePath, api.ChallengeRequest{Boot: boot}, &a)
	return a, err
}

// Register sends a report and returns the lease that it was granted.
func (c *Client) Register(ctx context.Context, s admit.Signed) (a api.LeaseAnswer, err error) {
	err = c.call(ctx, http.MethodPost, api.RegisterPath, s, &a)
	return a, err
}

// Renew makes a lease last again.
func (c *Client) Renew(ctx context.Context, r api.RenewRequest) (a api.LeaseAnswer, err error) {
	err = c.call(ctx, http.MethodPost, api.RenewPath, r, &a)
	return a, err
}

// Withdraw gives a lease back.
func (c *Client) Withdraw(ctx context.Context, lease admit.Challenge) error {
	path := api.NodesPath + "/" + c.node.String() + "?" + url.Values{"lease": {lease.String()}}.Encode()
	return c.call(ctx, http.MethodDelete, path, nil, &api.Nothing{})
}

func (c *Client) call(ctx context.Context, method, path string, ask, answer any) error {
	began := time.Now()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callWithin)
		defer cancel()
	}
	status, body, err := c.do(ctx, method, path, ask)
	if err != nil {
		return failed(ctx, err, path, time.Since(began))
	}
	if status != http.StatusOK {
		f, err := api.ParseProblem(body)
		if err != nil {
			return notUnderstood(path, fmt.Errorf("status %d: %w", status, err))
		}
		return f
	}
	if err := admit.DecodeStrict(body, answer); err != nil {
		return notUnderstood(path, err)
	}
	return nil
}

// do makes one request and reads its answer whole.
func (c *Client) do(ctx context.Context, method, path string, ask any) (status int, body []byte, err error) {
	var sent io.Reader
	if ask != nil {
		b, err := admit.EncodeStrict(ask)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(b)
	}
	s, err := c.open(ctx)
	if err != nil {
		return 0, nil, &unopened{err}
	}
	conn := api.Asked(s, c.tracker)
	defer func() { _ = conn.Close() }() // all was read that is wanted
	ctx = context.WithValue(ctx, connKey{}, conn)
	req, err := http.NewRequestWithContext(ctx, method, "http://tracker"+path, sent)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err = io.ReadAll(io.LimitReader(resp.Body, api.MostAnswer+1))
	if err == nil && len(body) > api.MostAnswer {
		err = errors.New("its answer has no end")
	}
	return resp.StatusCode, body, err
}

// failed says why there is no answer.
func failed(ctx context.Context, err error, path string, waited time.Duration) error {
	var closed *unopened
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.TrackerCallOverdue, component, "path", path, "waited", waited.Round(time.Millisecond))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &closed):
		return fault.From(closed.error)
	default:
		return fault.New(fault.TrackerConnectionLost, component, "path", path).Because(err)
	}
}

func notUnderstood(path string, err error) error {
	return fault.New(fault.TrackerAnswerInvalid, component, "path", path, "what", err)
}
