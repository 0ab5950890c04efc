package gateway

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/infer"
)

// retryAfter is the seconds after which a client that was not let in may ask
// again: a pool that has all its nodes serves within a few.
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
	return c == fault.OrchRequestRefused || strings.HasPrefix(string(c), "admit.")
}

func problem(w http.ResponseWriter, err error, blockers []admit.Blocker) {
	f := fault.From(err)
	status := f.Code.Entry().HTTP()
	var p problemBody
	p.Error.Message, p.Error.Code, p.Error.Hint, p.Error.Type = f.Error(), string(f.Code), f.Hint(), "invalid_request_error"
	if notAdmitted(f.Code) {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if status >= http.StatusInternalServerError {
		p.Error.Type = "server_error"
	}
	for _, b := range blockers {
		told := blocker{Node: b.Name, What: b.Fault.Error(), Hint: b.Fault.Hint()}
		if b.Layers[1] > 0 {
			told.Layers = b.Layers[:]
		}
		p.Blockers = append(p.Blockers, told)
	}
	answer(w, status, p)
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

// completion is what is read of a request; other fields are not.
type completion struct {
	Model       string   `json:"model"`
	Prompt      string   `json:"prompt"`
	MaxTokens   *int     `json:"max_tokens"`
	Temperature *float32 `json:"temperature"`
	TopP        *float32 `json:"top_p"`
	Seed        *uint64  `json:"seed"`

	// Asked for and not served yet: refused, since leaving it out would be
	// another answer.
	Stream   bool            `json:"stream"`
	Echo     bool            `json:"echo"`
	N        *int            `json:"n"`
	Stop     json.RawMessage `json:"stop"`
	Logprobs *int            `json:"logprobs"`
}

// flaw names the field that cannot be served as asked, and why; "" for none.
func (c completion) flaw() (field, what string) {
	const later = "is not served yet: leave it out"
	switch {
	case c.Prompt == "":
		return "prompt", "must be a text with something in it"
	case c.MaxTokens != nil && *c.MaxTokens < 1:
		return "max_tokens", "must be 1 or more"
	case c.Stream:
		return "stream", later
	case c.Echo:
		return "echo", later
	case c.N != nil && *c.N != 1:
		return "n", later
	case c.Logprobs != nil:
		return "logprobs", later
	case len(c.Stop) > 0 && string(c.Stop) != "null" && string(c.Stop) != "[]":
		return "stop", later
	}
	return "", ""
}

// defaultMax is how many tokens are generated where nobody says how many.
const defaultMax = 16

func (c completion) prompt() Prompt {
	p := Prompt{Prompt: c.Prompt, Sampling: infer.Greedy(), MaxTokens: defaultMax}
	p.Sampling.Temperature = 1
	if c.MaxTokens != nil {
		p.MaxTokens = *c.MaxTokens
	}
	if c.Temperature != nil {
		p.Sampling.Temperature = *c.Temperature
	}
	if c.TopP != nil {
		p.Sampling.TopP = *c.TopP
	}
	if c.Seed != nil {
		p.Sampling.Seed = *c.Seed
	} else {
		p.Sampling.Seed = rand.Uint64()
	}
	return p
}

// complete answers a prompt whole: what failed on the way is never an answer.
func (b Backend) complete(w http.ResponseWriter, r *http.Request) {
	var c completion
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		problem(w, fault.New(fault.RequestFieldInvalid, component, "field", "the body", "what", "is no object of the fields that are served"), nil)
		return
	}
	if field, what := c.flaw(); field != "" {
		problem(w, fault.New(fault.RequestFieldInvalid, component, "field", field, "what", what), nil)
		return
	}
	if c.Model != "" && c.Model != b.Model {
		problem(w, fault.New(fault.GatewayModelUnknown, component, "model", c.Model, "served", b.Model), nil)
		return
	}
	var text strings.Builder
	done, err := b.charged(r.Context(), c.prompt(), whole, func(piece string) error {
		text.WriteString(piece)
		return nil
	})
	if err != nil {
		problem(w, err, nil)
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"object": "text_completion", "model": b.Model,
		"choices": []map[string]any{{"index": 0, "text": text.String(), "finish_reason": done.FinishReason, "logprobs": nil}},
		"usage": map[string]int{
			"prompt_tokens": done.PromptTokens, "completion_tokens": len(done.Tokens), "total_tokens": done.PromptTokens + len(done.Tokens),
		},
	})
}
