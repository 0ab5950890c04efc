package tracker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/tracker/api"
)

// route answers one request of peer by a body, or by a fault.
type route func(ctx context.Context, peer id.NodeID, r *http.Request) (any, *fault.Fault)

func (t *Tracker) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]route{
		"POST " + api.ChallengePath:         t.challenge,
		"POST " + api.RegisterPath:          t.register,
		"POST " + api.RenewPath:             t.renew,
		"DELETE " + api.NodesPath + "/{id}": t.withdraw,
		"GET " + api.NodesPath:              t.nodes,
		"/":                                 unknown,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { t.serve(w, r, answer) })
	}
	return mux
}

// serve counts a request, bounds its body and writes its answer.
func (t *Tracker) serve(w http.ResponseWriter, r *http.Request, answer route) {
	peer, _ := r.Context().Value(peerKey{}).(id.NodeID)
	t.mu.Lock()
	refused := t.book.Allow(peer, t.cfg.Now())
	t.mu.Unlock()
	var body any
	if refused == nil {
		r.Body = http.MaxBytesReader(w, r.Body, api.MostRequest)
		ctx, cancel := context.WithTimeout(r.Context(), wantedWithin)
		body, refused = answer(ctx, peer, r)
		cancel()
	}
	if refused != nil {
		refuse(w, refused)
		return
	}
	write(w, http.StatusOK, body)
}

func refuse(w http.ResponseWriter, f *fault.Fault) {
	if wait := api.RetryAfter(f); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	write(w, api.Status(f), api.ProblemOf(f))
}

func write(w http.ResponseWriter, status int, v any) {
	b, err := admit.EncodeStrict(v)
	if err != nil {
		status = http.StatusInternalServerError
		b, _ = admit.EncodeStrict(api.ProblemOf(fault.From(err))) // texts alone
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the peer has gone: nobody to tell
}

func unknown(_ context.Context, _ id.NodeID, r *http.Request) (any, *fault.Fault) {
	return nil, fault.New(fault.TrackerRouteUnknown, component, "method", r.Method, "path", r.URL.Path)
}

// bodyOf reads a request's body to its end.
func bodyOf(r *http.Request) ([]byte, *fault.Fault) {
	b, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.TrackerBodyLarge, component, "most", large.Limit)
	case err != nil:
		return nil, invalid(err)
	}
	return b, nil
}

func read(r *http.Request, v any) *fault.Fault {
	b, f := bodyOf(r)
	if f != nil {
		return f
	}
	if err := admit.DecodeStrict(b, v); err != nil {
		return invalid(err)
	}
	return nil
}

func invalid(err error) *fault.Fault {
	return fault.New(fault.TrackerRequestInvalid, component, "what", err)
}

func (t *Tracker) challenge(_ context.Context, peer id.NodeID, r *http.Request) (any, *fault.Fault) {
	var ask api.ChallengeRequest
	if f := read(r, &ask); f != nil {
		return nil, f
	}
	if ask.Boot.IsZero() {
		return nil, invalid(errors.New("boot is missing"))
	}
	var c admit.Challenge
	if _, err := io.ReadFull(t.cfg.Random, c[:]); err != nil || c.IsZero() {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	var refused *fault.Fault
	t.with(func(b *admit.Book, now time.Duration) (told []admit.Effect) {
		told, refused = b.Issue(peer, ask.Boot, c, now)
		return told
	})
	return api.ChallengeAnswer{Challenge: c, ValidMS: t.rules.ChallengeFor.Milliseconds()}, refused
}

func (t *Tracker) register(ctx context.Context, peer id.NodeID, r *http.Request) (any, *fault.Fault) {
	t.mu.Lock()
	held := t.book.Held(peer, t.cfg.Now())
	t.mu.Unlock()
	if held != nil {
		return nil, held
	}
	signed, report, f := signedBy(peer, r)
	if f != nil {
		t.with(func(b *admit.Book, now time.Duration) []admit.Effect { return b.Refuse(peer, f, now) })
		return nil, f
	}
	want, err := t.cfg.Owner.Wanted(ctx, report)
	var typed *fault.Fault
	switch {
	case errors.As(err, &typed):
		return nil, typed
	case err != nil && ctx.Err() != nil:
		return nil, fault.New(fault.TrackerCallOverdue, component, "path", api.RegisterPath, "waited", wantedWithin)
	case err != nil:
		return nil, fault.From(err)
	}
	var lease admit.Lease
	t.with(func(b *admit.Book, now time.Duration) (told []admit.Effect) {
		lease, told, f = b.Register(peer, signed, want, now)
		return told
	})
	return t.leaseAnswer(lease), f
}

// signedBy reads a report that its peer has signed.
func signedBy(peer id.NodeID, r *http.Request) (s admit.Signed, report admit.Report, f *fault.Fault) {
	body, f := bodyOf(r)
	if f != nil {
		return s, report, f
	}
	if s, f = admit.ParseSigned(body); f != nil {
		return s, report, f
	}
	if report, f = admit.Verify(s); f != nil {
		return s, report, f
	}
	if report.Node != peer {
		return s, report, fault.New(fault.AdmitNodeMismatched, component, "field", "node", "want", peer, "got", report.Node)
	}
	return s, report, nil
}

func (t *Tracker) renew(_ context.Context, peer id.NodeID, r *http.Request) (any, *fault.Fault) {
	var ask api.RenewRequest
	if f := read(r, &ask); f != nil {
		return nil, f
	}
	var lease admit.Lease
	var refused *fault.Fault
	t.with(func(b *admit.Book, now time.Duration) (told []admit.Effect) {
		lease, told, refused = b.Renew(peer, ask.Boot, ask.Lease, ask.Digests, now)
		return told
	})
	return t.leaseAnswer(lease), refused
}

func (t *Tracker) leaseAnswer(l admit.Lease) api.LeaseAnswer {
	return api.LeaseAnswer{Lease: l.ID, LastsMS: t.rules.LeaseFor.Milliseconds(), RenewMS: t.rules.RenewEvery.Milliseconds()}
}

func (t *Tracker) withdraw(_ context.Context, peer id.NodeID, r *http.Request) (any, *fault.Fault) {
	node, err := id.ParseNodeID(r.PathValue("id"))
	if err != nil {
		return nil, invalid(err)
	}
	if node != peer {
		return nil, fault.New(fault.TrackerPeerRefused, component, "want", node.Short(), "got", peer.Short())
	}
	lease, err := admit.ParseChallenge(r.URL.Query().Get("lease"))
	if err != nil {
		return nil, invalid(err)
	}
	var refused *fault.Fault
	t.with(func(b *admit.Book, now time.Duration) (told []admit.Effect) {
		told, refused = b.Return(peer, lease, now)
		return told
	})
	return api.Nothing{}, refused
}

func (t *Tracker) nodes(context.Context, id.NodeID, *http.Request) (any, *fault.Fault) {
	t.mu.Lock()
	now := t.cfg.Now()
	all := t.book.Standings(now)
	t.mu.Unlock()
	answer := api.NodesAnswer{Nodes: make([]api.Node, 0, len(all))}
	for _, s := range all {
		n := api.Node{Node: s.Node, Fault: s.Why, Failures: s.Failures, HeldMS: s.HeldFor.Milliseconds()}
		if l := s.Lease; l != nil {
			n.Route = &api.Route{Lease: l.ID, Binding: l.Binding, Capacity: l.Capacity, Speed: l.Speed, LastsMS: (l.Expires - now).Milliseconds()}
		}
		answer.Nodes = append(answer.Nodes, n)
	}
	return answer, nil
}
