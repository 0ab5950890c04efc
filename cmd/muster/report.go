package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"muster/internal/fault"
)

// shown is a fault that stands in what the verb has printed: with --json it is
// not printed as a second object.
type shown struct{ error }

func (s shown) Unwrap() error { return s.error }

// report prints what went wrong, its code and what to do; a verb with --json
// prints it as an object too.
func report(std stdio, cmd *cobra.Command, err error) {
	f := fault.From(err)
	tell(std.err, f)
	if s := (shown{}); errors.As(err, &s) {
		return
	}
	if flag := cmd.Flag("json"); flag != nil && flag.Value.String() == "true" {
		_ = printJSON(std, struct { // stderr has told it already
			Fault *fault.Fault `json:"fault"`
			Says  string       `json:"says"`
			Hint  string       `json:"hint"`
		}{f, f.Error(), f.Hint()})
	}
}

func indent(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n        ")
}

func printJSON(std stdio, v any) error {
	enc := json.NewEncoder(std.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fault.New(fault.CLIOutputFailed, "").Because(err)
	}
	return nil
}

// written makes the error of a write to stdout typed.
func written(_ int, err error) error {
	if err != nil {
		return fault.New(fault.CLIOutputFailed, "").Because(err)
	}
	return nil
}

// tell prints a fault for people. What users named is quoted there as it was
// given, so what would move a terminal's cursor is taken out.
func tell(to io.Writer, err error) {
	f := fault.From(err)
	fmt.Fprintf(to, "muster: %s\n  code: %s\n  hint: %s\n", printable(f.Error()), f.Code, indent(printable(f.Hint())))
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
