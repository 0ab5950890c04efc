package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/internal/core/admit"
	"muster/internal/fault"
)

// asks are the requests of /v1 and /readyz.
var asks = []struct{ method, path, body string }{
	{"GET", "/readyz", ""},
	{"GET", "/v1/models", ""},
	{"POST", "/v1/completions", `{"model":"tale","prompt":"Once","max_tokens":3,"n":1}`},
}

// askOf sends a request to a backend as a program on this machine would.
func askOf(t *testing.T, b Backend, method, path, body string) (status int, head http.Header, v map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	b.handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %q: %v", path, w.Body, err)
	}
	return w.Code, w.Header(), v
}

// A request that is not admitted is never handed on, and is told what stands in
// the way and when to ask again.
func TestNothingIsAnsweredThatIsNotAdmitted(t *testing.T) {
	route := fault.New(fault.AdmitRouteMissing, "", "name", "n2", "layers", "3:6")
	for name, blockers := range map[string][]admit.Blocker{
		"no run":           {{Fault: fault.New(fault.OrchRequestRefused, "", "what", "the pool is settling")}},
		"a stage unrouted": {{Name: "n2", Layers: [2]int{3, 6}, Fault: route}},
		"two of them":      {{Name: "n1", Layers: [2]int{0, 3}, Fault: route}, {Name: "n2", Layers: [2]int{3, 6}, Fault: route}},
	} {
		b := Backend{
			Model:    "tale",
			Admitted: func(context.Context) ([]admit.Blocker, error) { return blockers, nil },
			Generate: func(context.Context, Prompt, func(string) error) (Done, error) {
				t.Errorf("%s: a prompt was handed on", name)
				return Done{}, nil
			},
		}
		for _, a := range asks {
			status, head, v := askOf(t, b, a.method, a.path, a.body)
			told, _ := v["error"].(map[string]any)
			if status != http.StatusServiceUnavailable || head.Get("Retry-After") == "" || told["code"] != string(blockers[0].Fault.Code) || told["hint"] == "" {
				t.Errorf("%s: %s answered %d %v", name, a.path, status, v)
			}
			if all, _ := v["blockers"].([]any); len(all) != len(blockers) {
				t.Errorf("%s: %s told %d blockers", name, a.path, len(all))
			}
		}
	}
}

func TestAnAdmittedRunAnswers(t *testing.T) {
	b := Backend{
		Model:    "tale",
		Admitted: func(context.Context) ([]admit.Blocker, error) { return nil, nil },
		Generate: func(_ context.Context, p Prompt, emit func(string) error) (Done, error) {
			if p.Prompt != "Once" || p.MaxTokens != 3 || p.Sampling.Temperature != 1 {
				t.Errorf("handed on: %+v", p)
			}
			for _, piece := range []string{" upon", "", " a"} {
				if err := emit(piece); err != nil {
					return Done{}, err
				}
			}
			return Done{Tokens: []int32{1, 2, 3}, PromptTokens: 5, FinishReason: "length"}, nil
		},
	}
	for _, a := range asks {
		status, _, v := askOf(t, b, a.method, a.path, a.body)
		if status != http.StatusOK || v["error"] != nil {
			t.Errorf("%s answered %d %v", a.path, status, v)
		}
		if a.path != "/v1/completions" {
			continue
		}
		choice := v["choices"].([]any)[0].(map[string]any)
		usage := v["usage"].(map[string]any)
		if choice["text"] != " upon a" || choice["finish_reason"] != "length" || usage["total_tokens"] != 8.0 {
			t.Errorf("answered %v", v)
		}
	}
}

// What fails on the way, and what cannot be asked, is never a 200.
func TestWhatFailsIsNeverAnAnswer(t *testing.T) {
	var why error
	b := Backend{
		Model:    "tale",
		Admitted: func(context.Context) ([]admit.Blocker, error) { return nil, nil },
		Generate: func(_ context.Context, _ Prompt, emit func(string) error) (Done, error) {
			_ = emit("half")
			return Done{}, why
		},
	}
	for name, c := range map[string]struct {
		why    error
		body   string
		status int
		code   fault.Code
	}{
		"the run faults":           {fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "log", ""), `{"prompt":"x"}`, 0, fault.WorkerKilled},
		"the route is lost":        {fault.New(fault.AdmitRouteMissing, "", "name", "n", "layers", "0:1"), `{"prompt":"x"}`, 503, fault.AdmitRouteMissing},
		"no JSON":                  {nil, `{`, 400, fault.RequestFieldInvalid},
		"a prompt of another kind": {nil, `{"prompt":[["x"]]}`, 400, fault.RequestFieldInvalid},
		"the run faults in a stream before its first byte": {fault.New(fault.RunStopped, ""), `{"prompt":"x","stream":true,"stop":"half"}`, 0, fault.RunStopped},
		"no prompt":            {nil, `{}`, 400, fault.RequestFieldInvalid},
		"the queue is full":    {fault.New(fault.RequestQueueFull, "", "slots", 1, "waiting", 64), `{"prompt":"x"}`, 429, fault.RequestQueueFull},
		"no answer":            {nil, `{"prompt":"x","n":0}`, 400, fault.RequestFieldInvalid},
		"an echo":              {nil, `{"prompt":"x","echo":true}`, 400, fault.RequestFieldInvalid},
		"probabilities":        {nil, `{"prompt":"x","logprobs":1}`, 400, fault.RequestFieldInvalid},
		"no tokens":            {nil, `{"prompt":"x","max_tokens":0}`, 400, fault.RequestFieldInvalid},
		"a model of elsewhere": {nil, `{"prompt":"x","model":"other"}`, 404, fault.GatewayModelUnknown},
	} {
		why = c.why
		status, _, v := askOf(t, b, "POST", "/v1/completions", c.body)
		told, _ := v["error"].(map[string]any)
		if status < 400 || c.status != 0 && status != c.status || told["code"] != string(c.code) || v["choices"] != nil {
			t.Errorf("%s: answered %d %v", name, status, v)
		}
	}
}
