package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/internal/fault"
	"muster/internal/pooldef"
)

// Client asks an orchestrator's gateway. Faults come back as they were there;
// gateway.orchestrator_unreached where nobody answers,
// gateway.orchestrator_lost where an answer breaks off.
type Client struct {
	base string
	http *http.Client
}

// NewClient asks at host:port.
func NewClient(address string) *Client {
	return &Client{http: http.DefaultClient, base: "http://" + strings.TrimPrefix(strings.TrimSuffix(address, "/"), "http://")}
}

// Address is where it asks.
func (c *Client) Address() string { return c.base }

// Status reads the orchestrator's status into v.
func (c *Client) Status(ctx context.Context, v any) error {
	return c.object(ctx, http.MethodGet, "/api/status", nil, v)
}

// Pool reads the definition of the pool.
func (c *Client) Pool(ctx context.Context) (p Pool, err error) {
	err = c.object(ctx, http.MethodGet, "/api/pool", nil, &p)
	return p, err
}

// DefinePool changes the pool, if it is still at p.Epoch.
func (c *Client) DefinePool(ctx context.Context, p pooldef.Pool) (now Pool, err error) {
	err = c.object(ctx, http.MethodPut, "/api/pool", Pool{Pool: p}, &now)
	return now, err
}

// Form has runs formed again.
func (c *Client) Form(ctx context.Context) error {
	return c.object(ctx, http.MethodPost, "/api/form", struct{}{}, &struct{}{})
}

// object has one object answered into v.
func (c *Client) object(ctx context.Context, method, path string, ask, v any) error {
	body, err := c.ask(ctx, callWithin, method, path, ask)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return c.lost(ctx, err)
	}
	return nil
}

// Stop ends the run; with leave the nodes are told to leave too.
func (c *Client) Stop(ctx context.Context, leave bool) error {
	return c.object(ctx, http.MethodPost, "/api/stop", map[string]bool{"leave": leave}, &struct{}{})
}

// Events calls tell for each event after since: those there are, or with follow
// until ctx ends.
func (c *Client) Events(ctx context.Context, since uint64, follow bool, tell func(Event) error) error {
	path := "/api/events?since=" + strconv.FormatUint(since, 10)
	if follow {
		path += "&follow"
	}
	body, err := c.ask(ctx, silentWithin, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return each(ctx, c, body, tell)
}

// Run has a prompt answered, calling emit with the text as it comes.
func (c *Client) Run(ctx context.Context, p Prompt, emit func(text string) error) (Done, error) {
	body, err := c.ask(ctx, silentWithin, http.MethodPost, "/api/run", p)
	if err != nil {
		return Done{}, err
	}
	var done *Done
	err = each(ctx, c, body, func(l Line) error {
		switch {
		case l.Fault != nil:
			return l.Fault
		case l.Done != nil:
			done = l.Done
			return nil
		}
		return emit(l.Text)
	})
	if err == nil && done == nil {
		err = c.lost(ctx, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return Done{}, err
	}
	return *done, nil
}

// ask sends a request and returns the body of its answer, which ends when
// nothing has come of it for so long.
func (c *Client) ask(ctx context.Context, silent time.Duration, method, path string, v any) (io.ReadCloser, error) {
	var body bytes.Buffer
	if v != nil {
		if err := json.NewEncoder(&body).Encode(v); err != nil {
			return nil, err
		}
	}
	a := attend(ctx, silent)
	req, err := http.NewRequestWithContext(a.ctx, method, c.base+path, &body)
	if err != nil {
		a.end()
		return nil, c.unreached(ctx, err)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // closed with what attends it
	if err != nil {
		defer a.end()
		if a.fellSilent() {
			return nil, c.lost(ctx, errSilent)
		}
		return nil, c.unreached(ctx, err)
	}
	a.body = resp.Body
	if resp.StatusCode == http.StatusOK {
		return a, nil
	}
	defer func() { _ = a.Close() }() // it was only read
	var l Line
	if err := json.NewDecoder(a).Decode(&l); err != nil || l.Fault == nil {
		return nil, c.unreached(ctx, errors.New(resp.Status))
	}
	if l.Fault.Code == fault.RunInterrupted { // it ends, which is no wish of the asker's
		return nil, c.lost(ctx, l.Fault)
	}
	return nil, l.Fault
}

// unreached and lost type a failure, unless the asker itself has ended.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.New(fault.GatewayUnreachable, "", "address", c.base).Because(err)
}

func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.New(fault.GatewayLost, "orchestrator", "address", c.base).Because(err)
}

// each decodes the lines of a body until it ends.
func each[T any](ctx context.Context, c *Client, body io.ReadCloser, tell func(T) error) error {
	defer func() { _ = body.Close() }() // it was only read
	for dec := json.NewDecoder(body); ; {
		var v T
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return c.lost(ctx, err)
		}
		if err := tell(v); err != nil {
			return err
		}
	}
}
