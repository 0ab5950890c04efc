package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"muster/internal/core/admit"
	"muster/internal/fault"
)

// retryAfter is the seconds after which a client that was not let in may ask
// again: a pool that has all its nodes serves within a few, and a queue moves.
const retryAfter = 2

// admitted lets requests in while the run holds a live route for every stage,
// and answers 503 with what stands in the way otherwise.
func (b Backend) admitted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		blockers, err := b.Admitted(r.Context())
		switch {
		case err != nil:
			problem(w, err, nil)
		case len(blockers) > 0:
			problem(w, blockers[0].Fault, blockers)
		default:
			next(w, r)
		}
	}
}

// problemBody is how /v1 and /readyz say no, in the form of OpenAI's API.
type problemBody struct {
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   string `json:"param,omitempty"` // the field that is to be changed
		Code    string `json:"code"`
		Hint    string `json:"hint"`
	} `json:"error"`
	Blockers []blocker `json:"blockers,omitempty"`
}

// blocker is one thing that stands between the run and its first request.
type blocker struct {
	Node   string `json:"node,omitempty"` // the node for people
	Layers []int  `json:"layers,omitempty"`
	What   string `json:"what"`
	Hint   string `json:"hint"`
}

// notAdmitted are the codes of a request that was not let in: another one may
// be, later.
func notAdmitted(c fault.Code) bool {
	return c == fault.OrchRequestRefused || c == fault.RequestServiceStopped || strings.HasPrefix(string(c), "admit.")
}

func problem(w http.ResponseWriter, err error, blockers []admit.Blocker) {
	f := fault.From(err)
	status := statusOf(f)
	if status == http.StatusTooManyRequests || notAdmitted(f.Code) {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	answer(w, status, problemOf(f, blockers))
}

func statusOf(f *fault.Fault) int {
	if notAdmitted(f.Code) {
		return http.StatusServiceUnavailable
	}
	return f.Code.Entry().HTTP()
}

func problemOf(err error, blockers []admit.Blocker) problemBody {
	f := fault.From(err)
	var p problemBody
	p.Error.Message, p.Error.Code, p.Error.Hint, p.Error.Type = f.Error(), string(f.Code), f.Hint(), "invalid_request_error"
	if f.Code == fault.RequestFieldInvalid {
		p.Error.Param = f.Attr("field")
	}
	if statusOf(f) >= http.StatusInternalServerError {
		p.Error.Type = "server_error"
	}
	for _, b := range blockers {
		told := blocker{Node: b.Name, What: b.Fault.Error(), Hint: b.Fault.Hint()}
		if b.Layers[1] > 0 {
			told.Layers = b.Layers[:]
		}
		p.Blockers = append(p.Blockers, told)
	}
	return p
}

func (b Backend) ready(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"ready": true})
}

func (b Backend) models(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"object": "list",
		"data":   []map[string]any{{"id": b.Model, "object": "model", "created": 0, "owned_by": "muster"}},
	})
}
