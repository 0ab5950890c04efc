package api

import (
	"errors"
	"net/http"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
)

// Problem is the answer to what is refused. The status is the code's.
type Problem struct {
	Error Detail `json:"error"`
}

// Detail is a fault as it is answered. Programs decide by the code.
type Detail struct {
	Code    fault.Code   `json:"code"`
	Message string       `json:"message"`
	Hint    string       `json:"hint"`
	Attrs   []fault.Attr `json:"attrs"` // may be null
	Cause   string       `json:"cause,omitempty"`
}

// ProblemOf is how a fault is answered.
func ProblemOf(f *fault.Fault) Problem {
	d := Detail{Code: f.Code, Message: f.Error(), Hint: f.Hint(), Attrs: f.Attrs}
	if f.Cause != nil {
		d.Cause = f.Cause.Error()
	}
	return Problem{Error: d}
}

// ParseProblem is the fault that a Problem tells; an error where it is none.
func ParseProblem(body []byte) (*fault.Fault, error) {
	var p Problem
	if err := admit.DecodeStrict(body, &p); err != nil {
		return nil, err
	}
	if p.Error.Code == "" {
		return nil, errors.New("a refusal has no code")
	}
	f := &fault.Fault{Code: p.Error.Code, Component: "tracker", Attrs: p.Error.Attrs}
	switch {
	case !f.Code.Known():
		f.Cause = errors.New(p.Error.Message) // a newer tracker's: its words are all there is
	case p.Error.Cause != "":
		f.Cause = errors.New(p.Error.Cause)
	}
	return f, nil
}

// Status is the HTTP status of a fault.
func Status(f *fault.Fault) int { return f.Code.Entry().HTTP() }

// RetryAfter is how long to wait before the same request, as the fault tells;
// 0 where it does not.
func RetryAfter(f *fault.Fault) time.Duration {
	if Status(f) != http.StatusServiceUnavailable {
		return 0
	}
	wait, err := time.ParseDuration(f.Attr("wait"))
	if err != nil {
		return 0
	}
	return max(0, wait)
}
