// Package id holds the names of things: nodes, boots, runs, edges and nonces,
// each a type of its own so that one cannot be passed for another.
//
//	type    bytes  text                          where it comes from
//	NodeID  32     52 lower-case base32          the node's ed25519 public key
//	BootID  16     32 lower-case hex             random, one life of a node process
//	RunID   16     UUID version 7                made by the orchestrator at a commit
//	EdgeID  16     UUID version 7                made by the planner's shell for a run
//	Nonce   8      16 lower-case hex             random, asked for and answered once
//
// The zero value of each means none: IsZero says so, String says "none", and
// the text form is empty, so that JSON has "" (or nothing, with omitzero).
// Each text has one spelling: parsing refuses every other, so that ids may be
// compared as text too.
//
// The package imports nothing of ours. Randomness is an argument.
package id

import "fmt"

const none = "none"

// ParseError says which text is no id of which kind, and why.
type ParseError struct {
	Kind string // "node id", "boot id", ...
	Text string
	Why  string
}

func (e *ParseError) Error() string {
	text := e.Text
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return fmt.Sprintf("%q is no %s: %s", text, e.Kind, e.Why)
}

// unmarshal is UnmarshalText over a parser: the empty text is none.
func unmarshal[T any](text []byte, into *T, parse func(string) (T, error)) error {
	var v T
	if len(text) > 0 {
		var err error
		if v, err = parse(string(text)); err != nil {
			return err
		}
	}
	*into = v
	return nil
}
