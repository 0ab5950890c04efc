// Package gateway is the orchestrator's HTTP face for Muster's own programs:
// status, events, a prompt, stop. It listens on loopback alone, and refuses
// requests that a web page could have made.
//
//	GET  /api/status                 one object
//	GET  /api/events?since=N&follow  a line an event, with its sequence
//	POST /api/run                    lines {"text":…}, then {"done":…} or {"fault":…}
//	POST /api/stop                   {"leave":bool}
//	POST /api/form                   {}
//	GET  /api/pool                   the definition of the pool, and the orchestrator's folder
//	PUT  /api/pool                   another definition, with the epoch that it was made from
//	GET  /api/keys                   the keys of clients, without their secrets
//	POST /api/keys                   makes one: {"name":…,"credit":N} or "unlimited"
//	POST /api/keys/revoke            {"key":…}, by its name or id
//	POST /api/keys/credit            {"key":…,"tokens":N,"request":…}, once for each request
//	GET  /readyz                     whether a request would be answered now
//	GET  /v1/models                  the served model
//	POST /v1/completions             prompts, answered whole or as a stream
//
// It decides nothing: a Backend does.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/pooldef"
	"muster/internal/store"
	"muster/internal/wire"
)

const component = "gateway"

// Prompt is the body of /api/run.
type Prompt struct {
	Prompt    string        `json:"prompt"`
	Sampling  wire.Sampling `json:"sampling"`
	MaxTokens int           `json:"max_tokens"` // 0: until the context is full
	// Accept is called once the request is let in and its prompt is known, before
	// any of it is computed; an error of it refuses the request. Nil accepts.
	Accept func(credit.Work) error `json:"-"`
}

// Done is what an answer came to.
type Done struct {
	Tokens          []int32 `json:"tokens"`
	PromptTokens    int     `json:"prompt_tokens"`
	FinishReason    string  `json:"finish_reason"`
	TTFTMS          float64 `json:"ttft_ms"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// Line is one line of an answer; just one field is set.
type Line struct {
	Text  string       `json:"text,omitempty"`
	Done  *Done        `json:"done,omitempty"`
	Fault *fault.Fault `json:"fault,omitempty"`
}

// Event is one line of the journal.
type Event struct {
	Sequence uint64          `json:"sequence"`
	Event    json.RawMessage `json:"event"`
}

// Line is the event as one object that begins with its sequence.
func (e Event) Line() []byte {
	head := fmt.Appendf(nil, `{"sequence":%d`, e.Sequence)
	rest, isObject := bytes.CutPrefix(bytes.TrimSpace(e.Event), []byte("{"))
	if !isObject || len(rest) < len(`"a":1}`) {
		return append(head, '}')
	}
	return append(append(head, ','), rest...)
}

// Events gives the journal entry by entry; Next waits for one.
type Events interface {
	Next(ctx context.Context) (Event, error)
}

// Backend answers. Its calls end with their context.
type Backend struct {
	Status func(ctx context.Context) (any, error)
	Events func(since uint64) Events
	// Generate answers a prompt; with an error comes what was generated until then.
	Generate func(ctx context.Context, p Prompt, emit func(text string) error) (Done, error)
	// Admitted lists what keeps requests from being taken; nothing lets them in.
	Admitted func(ctx context.Context) ([]admit.Blocker, error)
	Model    string // what the served model is called
	Stop     func(ctx context.Context, leave bool) error
	Form     func(ctx context.Context) error
	Pool     func(ctx context.Context) (pooldef.Pool, error)
	// DefinePool changes the pool if it is still at p.Epoch.
	DefinePool func(ctx context.Context, p pooldef.Pool) (pooldef.Pool, error)
	Data       string // the orchestrator's folder, absolute; "" where it has none

	// Accounts are the keys of clients; nil where there can be none. Once there
	// is one, or where KeysDemanded, what is computed for /v1 needs one.
	Accounts     store.Accounts
	KeysDemanded bool

	closing func() bool // the gateway itself is ending; nil: it is not
}

// Pool is the body of /api/pool.
type Pool struct {
	pooldef.Pool
	Data string `json:"data,omitempty"` // not read in a request
}

const (
	mostBody   = 20 << 20 // bytes of a request
	readWithin = 10 * time.Second
	idleWithin = 2 * time.Minute
	stopWithin = 30 * time.Second
	drainAfter = 500 * time.Millisecond // of silence, where events are not followed
)

// Listen listens on an address of this machine's own. Faults:
// gateway.address_open for one that others reach, gateway.port_taken.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, fault.New(fault.CLIFlagInvalid, "", "flag", "--http", "value", address, "want", "give host:port, such as 127.0.0.1:6878").Because(err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fault.New(fault.GatewayPortTaken, "", "address", address).Because(err)
	}
	if !local(l.Addr().String()) {
		return nil, errors.Join(fault.New(fault.GatewayAddressOpen, "", "address", address), l.Close())
	}
	return l, nil
}

// handler is all that is answered.
func (b Backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", b.status)
	mux.HandleFunc("GET /api/events", b.events)
	mux.HandleFunc("POST /api/run", b.run)
	mux.HandleFunc("POST /api/stop", b.stop)
	mux.HandleFunc("POST /api/form", b.form)
	mux.HandleFunc("GET /api/pool", b.pool)
	mux.HandleFunc("PUT /api/pool", b.definePool)
	mux.HandleFunc("GET /api/keys", b.keys)
	mux.HandleFunc("POST /api/keys", b.createKey)
	mux.HandleFunc("POST /api/keys/revoke", b.revokeKey)
	mux.HandleFunc("POST /api/keys/credit", b.grantKey)
	mux.HandleFunc("GET /readyz", b.admitted(b.ready))
	mux.HandleFunc("GET /v1/models", b.admitted(b.models))
	mux.HandleFunc("POST /v1/completions", b.keyed(b.admitted(b.complete)))
	return own(mux)
}

// Serve answers on l until ctx ends, and returns when every request has.
func Serve(ctx context.Context, l net.Listener, b Backend) error {
	b.closing = func() bool { return ctx.Err() != nil }
	server := &http.Server{
		Handler: b.handler(), ReadHeaderTimeout: readWithin, IdleTimeout: idleWithin, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
		defer cancel()
		ended <- server.Shutdown(closing)
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// own lets in only what names this machine as its host and comes from no page
// of another: a browser cannot be made to reach it.
func own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) || !local(r.RemoteAddr) || r.Header.Get("Origin") != "" {
			refuse(w, fault.New(fault.GatewayCallerRefused, component, "host", r.Host))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || (ip != nil && ip.IsLoopback())
}

// read takes a request's body, which must come in time; it answers those that do
// not, and those that cannot be understood.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	c := http.NewResponseController(w)
	err := c.SetReadDeadline(time.Now().Add(readWithin))
	if err == nil {
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		err = body.Decode(v)
	}
	if err == nil {
		err = c.SetReadDeadline(time.Time{}) // else the end of it would end a long answer
	}
	if err != nil {
		refuse(w, fault.New(fault.GatewayRequestInvalid, component).Because(err))
	}
	return err == nil
}

func (b Backend) status(w http.ResponseWriter, r *http.Request) {
	s, err := b.Status(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, s)
}

func (b Backend) events(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseUint(r.FormValue("since"), 10, 64)
	source, lines := b.Events(since), newLines(w)
	defer lines.beat()()
	for {
		ctx, cancel := r.Context(), context.CancelFunc(func() {})
		if !r.Form.Has("follow") {
			ctx, cancel = context.WithTimeout(ctx, drainAfter)
		}
		e, err := source.Next(ctx)
		cancel()
		if err != nil || lines.send(e) != nil {
			return
		}
	}
}

func (b Backend) run(w http.ResponseWriter, r *http.Request) {
	var p Prompt
	if !read(w, r, &p) {
		return
	}
	lines := newLines(w)
	stop := lines.beat()
	done, err := b.Generate(r.Context(), p, func(text string) error {
		if text == "" {
			return nil
		}
		return lines.send(Line{Text: text})
	})
	stop()
	if err != nil {
		lines.refuse(err)
		return
	}
	_ = lines.send(Line{Done: &done}) // the client has gone: nobody to tell
}

func (b Backend) stop(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Leave bool `json:"leave"`
	}
	if !read(w, r, &ask) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), stopWithin)
	defer cancel()
	if err := b.Stop(ctx, ask.Leave); err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (b Backend) form(w http.ResponseWriter, r *http.Request) {
	if err := b.Form(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

func (b Backend) pool(w http.ResponseWriter, r *http.Request) {
	p, err := b.Pool(r.Context())
	b.answerPool(w, p, err)
}

func (b Backend) definePool(w http.ResponseWriter, r *http.Request) {
	var p Pool
	if !read(w, r, &p) {
		return
	}
	now, err := b.DefinePool(r.Context(), p.Pool)
	b.answerPool(w, now, err)
}

func (b Backend) answerPool(w http.ResponseWriter, p pooldef.Pool, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, Pool{Pool: p, Data: b.Data})
}

func refuse(w http.ResponseWriter, err error) {
	f := fault.From(err)
	answer(w, f.Code.Entry().HTTP(), Line{Fault: f})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nobody to tell
}
