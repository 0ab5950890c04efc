//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/internal/fault"
)

// trial is one loss and what came of it.
type trial struct {
	kind    kind
	nodes   int
	number  int
	victim  string // the lost node's name
	stage   int    // it held
	toError time.Duration
	toToken time.Duration
	served  bool       // the pool served again
	code    fault.Code // "" where no fault came
	blamed  string     // node, "" where the fault names none
	again   []string   // faults before the next token
	early   error      // a fault that came before the loss; nil where none did
	wrong   []string   // why it failed
}

func (t *trial) fails(err error) *trial {
	t.wrong = append(t.wrong, strings.ReplaceAll(err.Error(), "\n", "; "))
	return t
}

// judge takes the error that ended the answer: it is to be a fault of the
// catalogue that came from the orchestrator and names the lost node, as named
// has it from its short id or its name.
func (t *trial) judge(err error, named func(node string) string) {
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.fails(fmt.Errorf("an error without a type: %w", err))
		return
	}
	t.code = f.Code
	if f.Node != "" {
		t.blamed = named(f.Node)
	}
	switch {
	case !f.Code.Known() || f.Code == fault.InternalUnexpected || f.Code == fault.GatewayUnreachable:
		t.fails(fmt.Errorf("not a fault of the pool: %w", f))
	case f.Node == "":
		t.fails(fmt.Errorf("it names no node: %w", f))
	case t.blamed != t.victim:
		t.fails(fmt.Errorf("it names %s, lost was %s: %w", t.blamed, t.victim, f))
	}
}

// awaitToken takes when the next token came.
func (t *trial) awaitToken(came time.Time, err error, from time.Time) {
	if err != nil {
		t.fails(err)
		return
	}
	t.served, t.toToken = true, came.Sub(from)
}

// line is the trial as it is told while others follow.
func (t *trial) line() string {
	s := fmt.Sprintf("%-11s %d nodes, trial %2d: %s (stage %d) lost; %s of %s after %v, next token after %v", t.kind.name, t.nodes,
		t.number, t.victim, t.stage, orNone(string(t.code)), orNone(t.blamed), t.toError.Round(time.Millisecond), t.toToken.Round(time.Millisecond))
	if len(t.again) > 0 {
		s += "; on the way: " + strings.Join(t.again, ", ")
	}
	if len(t.wrong) > 0 {
		s += "\n  FAILED: " + strings.Join(t.wrong, "; ")
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
