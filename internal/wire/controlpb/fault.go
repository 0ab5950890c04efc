package controlpb

import (
	"errors"
	"strings"
	"unicode/utf8"

	"muster/internal/fault"
)

// Bounds of a fault on the wire. A fault of this side is cut to them; one of a
// peer beyond them is refused.
const (
	mostCauses    = 8
	mostAttrs     = 64
	mostCode      = 128
	mostComponent = 256
	mostValue     = 4 << 10 // bytes; the last words of a worker are the longest
)

// FaultOf is an error as it is sent: with its code, and its causes as far as
// they have codes; one without is sent as its words. nil is none.
func FaultOf(err error) *Fault {
	if err == nil {
		return nil
	}
	return faultOf(fault.From(err), mostCauses)
}

func faultOf(f *fault.Fault, causes int) *Fault {
	m := &Fault{
		Code:      text(string(f.Code), mostCode),
		Node:      text(f.Node, mostName),
		Component: text(f.Component, mostComponent),
	}
	for _, a := range f.Attrs[:min(len(f.Attrs), mostAttrs)] {
		m.Attrs = append(m.Attrs, &Attr{Key: text(a.Key, mostName), Value: text(a.Value, mostValue)})
	}
	switch cause := f.Cause.(type) { //nolint:errorlint // a fault further down would lose the words above it
	case nil:
	case *fault.Fault:
		if causes > 0 && cause != nil {
			m.Cause = &Fault_Fault{Fault: faultOf(cause, causes-1)}
			break
		}
		m.Cause = &Fault_Text{Text: text(f.Cause.Error(), mostValue)}
	default:
		m.Cause = &Fault_Text{Text: text(f.Cause.Error(), mostValue)}
	}
	return m
}

// Typed is the fault as it was where it was raised: its code, known here or
// not, its figures and its causes. nil is nil.
func (m *Fault) Typed() *fault.Fault {
	if m == nil {
		return nil
	}
	f := &fault.Fault{Code: fault.Code(m.GetCode()), Node: m.GetNode(), Component: m.GetComponent()}
	for _, a := range m.GetAttrs() {
		f.Attrs = append(f.Attrs, fault.Attr{Key: a.GetKey(), Value: a.GetValue()})
	}
	switch cause := m.GetCause().(type) {
	case *Fault_Fault:
		f.Cause = cause.Fault.Typed()
	case *Fault_Text:
		f.Cause = errors.New(cause.Text)
	}
	return f
}

// text is s as protobuf and a reader take it: UTF-8, and of at most so many
// bytes.
func text(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	const mark = "…"
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
