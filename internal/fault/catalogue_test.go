package fault_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/fault"
)

// A code with no entry would be shown as internal.unexpected, and an entry
// with no constant can be raised by nobody.
func TestEveryConstantHasItsEntryInOrder(t *testing.T) {
	var listed []string
	for _, e := range fault.Catalogue() {
		listed = append(listed, string(e.Code))
	}
	constants := codeConstants(t)
	var declared []string
	for _, c := range constants {
		declared = append(declared, c.value)
	}
	for _, code := range declared {
		if !slices.Contains(listed, code) {
			t.Errorf("%s is a constant without an entry", code)
		}
	}
	for _, code := range listed {
		if !slices.Contains(declared, code) {
			t.Errorf("%s is an entry without a constant", code)
		}
	}
	if !t.Failed() && !slices.Equal(declared, listed) {
		t.Errorf("constants and entries stand in different orders:\n%s\n%s", strings.Join(declared, " "), strings.Join(listed, " "))
	}
}

// adjectives are the last words of codes that are no regular participles.
var adjectives = []string{
	"broken", "corrupt", "empty", "few", "finite", "full", "held", "incomplete", "invalid", "large", "long",
	"missing", "newer", "open", "overdue", "taken", "unknown", "unreachable", "unreadable", "unwritable", "wrong",
	"corrupt", "empty", "few", "finite", "full", "held", "incomplete", "invalid", "large", "long", "lost",
	"missing", "overdue", "unknown", "unreadable", "unwritable", "wrong",
	"lost", "short",
	"broken", "corrupt", "empty", "few", "finite", "full", "held", "incomplete", "invalid", "large", "long", "lost",
	"missing", "open", "overdue", "taken", "unknown", "unreachable", "unreadable", "unwritable", "wrong",
	"lost", "short", "unavailable",
	"spent",
}

func TestCodesAreComponentNounParticiple(t *testing.T) {
	shape := regexp.MustCompile(`^([a-z]+)\.(?:[a-z]+_){0,3}([a-z]+)$`)
	for _, c := range codeConstants(t) {
		parts := shape.FindStringSubmatch(c.value)
		if parts == nil {
			t.Errorf("%s is not component.noun_participle", c.value)
			continue
		}
		regular := strings.HasSuffix(parts[2], "ed") || strings.HasSuffix(parts[2], "en")
		if !regular && !slices.Contains(adjectives, parts[2]) {
			t.Errorf("%s ends in %q, which says nothing of what happened: end it in a participle, or add the word to adjectives", c.value, parts[2])
		}
		if !strings.HasPrefix(strings.ToLower(c.name), parts[1]) {
			t.Errorf("%s is the constant %s: its name must begin with its component", c.value, c.name)
		}
	}
}

func TestEntriesSayWhatHappenedAndWhatToDo(t *testing.T) {
	figure := regexp.MustCompile(`\{[a-z_]+\}`)
	for _, e := range fault.Catalogue() {
		if len(strings.Fields(e.Says)) < 2 {
			t.Errorf("%s says only %q", e.Code, e.Says)
		}
		// Where only the place of the fault knows the remedy, its whole
		// sentence comes as {want}.
		if len(strings.Fields(e.Hint)) < 4 && e.Hint != "{want}" {
			t.Errorf("%s: the hint %q does not say what to do", e.Code, e.Hint)
		}
		for _, text := range []string{e.Says, e.Hint} {
			if strings.ContainsAny(figure.ReplaceAllString(text, ""), "{}") {
				t.Errorf("%s: a brace in %q names no figure", e.Code, text)
			}
			if strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q ends in a full stop, but goes on with a cause or stands in a line", e.Code, text)
			}
		}
		if e.Exit() < 1 || e.Exit() > 125 {
			t.Errorf("%s has the exit code %d", e.Code, e.Exit())
		}
		if e.Kind.String() == "" || e.HTTP() < 400 || e.HTTP() > 599 {
			t.Errorf("%s is of kind %q with HTTP status %d", e.Code, e.Kind, e.HTTP())
		}
		if !slices.Contains([]fault.Retry{fault.Never, fault.Later, fault.Elsewhere}, e.Retry) {
			t.Errorf("%s has the retry %q", e.Code, e.Retry)
		}
	}
}

type codeConstant struct{ name, value string }

// codeConstants reads the constants of type Code from the source, in order.
func codeConstants(t *testing.T) []codeConstant {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []codeConstant
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			value, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, codeConstant{name.Name, value})
		}
		return true
	})
	if len(found) == 0 {
		t.Fatal("codes.go holds no constant of type Code")
	}
	return found
}
