// Package fault is the one error type of Muster and its catalogue.
//
// A Fault says what went wrong (Code), where (Node, Component), with which
// figures (Attrs) and because of what (Cause). What kind of thing a code is,
// whether a retry helps, which HTTP status and exit code it has and what a
// person should do about it stand once, in the catalogue.
//
// Wrap once per component; return a fault or end it, never log it and return
// it. Codes compare with errors.Is:
//
//	errors.Is(err, fault.WorkerKilled)
//
// The package imports nothing of ours.
package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Code names a fault as component.noun_participle. A code is never reused for
// another meaning. It is an error so that it can be a target of errors.Is.
type Code string

func (c Code) Error() string { return string(c) }

// Attr is one figure of a fault, such as {"path", "/models/x.gguf"}. Sentences
// and hints of the catalogue name attributes in braces.
type Attr struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Fault is an error with a code of the catalogue.
type Fault struct {
	Code      Code
	Node      string // its name in the pool, or its short id where that is not known; "" on a machine without nodes
	Component string // who noticed or who failed, such as "worker 1"
	Attrs     []Attr
	Cause     error // nil where the fault is the root
}

// New makes a fault of component. The pairs are attribute keys and values in
// turn; values are printed with fmt.Sprint.
func New(code Code, component string, pairs ...any) *Fault {
	f := &Fault{Code: code, Component: component}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Attrs = append(f.Attrs, Attr{Key: fmt.Sprint(pairs[i]), Value: fmt.Sprint(pairs[i+1])})
	}
	return f
}

// Because sets the cause and returns the fault.
func (f *Fault) Because(cause error) *Fault {
	f.Cause = cause
	return f
}

// Attr returns the value of an attribute, "" where it is absent.
func (f *Fault) Attr(key string) string {
	for _, a := range f.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Error is one line: node, component, what happened with its figures, cause.
func (f *Fault) Error() string {
	var b strings.Builder
	for _, where := range []string{f.Node, f.Component} {
		if where != "" {
			b.WriteString(where)
			b.WriteString(": ")
		}
	}
	b.WriteString(f.fill(f.Code.Entry().Says))
	if f.Cause != nil {
		b.WriteString(": ")
		b.WriteString(f.Cause.Error())
	}
	return b.String()
}

// Hint says what a person should do, with this fault's figures filled in.
func (f *Fault) Hint() string { return f.fill(f.Code.Entry().Hint) }

// Is makes errors.Is(err, code) hold for a fault of that code.
func (f *Fault) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == f.Code
}

func (f *Fault) Unwrap() error { return f.Cause }

func (f *Fault) fill(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	pairs := make([]string, 0, 2*len(f.Attrs))
	for _, a := range f.Attrs {
		pairs = append(pairs, "{"+a.Key+"}", a.Value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// From returns err's fault, or err wrapped as internal.unexpected: whatever
// leaves a process is typed.
func From(err error) *Fault {
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return New(InternalUnexpected, "").Because(err)
}

// Entry returns the catalogue's entry of the code; an unknown code gets that
// of internal.unexpected, so that a newer peer's faults can still be shown.
func (c Code) Entry() Entry {
	if e, ok := byCode[c]; ok {
		return e
	}
	e := byCode[InternalUnexpected]
	e.Code = c
	e.Says = string(c)
	return e
}

// Known reports whether the catalogue has the code.
func (c Code) Known() bool { _, ok := byCode[c]; return ok }

// Exit is the process exit code for err: 0 for nil, otherwise 1 to 125.
func Exit(err error) int {
	if err == nil {
		return 0
	}
	return From(err).Code.Entry().Exit()
}

type faultJSON struct {
	Code      Code   `json:"code"`
	Node      string `json:"node,omitempty"`
	Component string `json:"component,omitempty"`
	Attrs     []Attr `json:"attrs,omitempty"`
	Cause     string `json:"cause,omitempty"`
}

// MarshalJSON writes the form in which faults cross processes. The cause
// crosses as text only: the code is what programs decide by.
func (f *Fault) MarshalJSON() ([]byte, error) {
	j := faultJSON{Code: f.Code, Node: f.Node, Component: f.Component, Attrs: f.Attrs}
	if f.Cause != nil {
		j.Cause = f.Cause.Error()
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *Fault) UnmarshalJSON(b []byte) error {
	var j faultJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*f = Fault{Code: j.Code, Node: j.Node, Component: j.Component, Attrs: j.Attrs}
	if j.Cause != "" {
		f.Cause = errors.New(j.Cause)
	}
	return nil
}
