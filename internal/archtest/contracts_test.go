package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// pages maps the headings of docs/contracts.md to the contracts they hold.
var pages = map[string]string{
	"Node boot":                     "node-boot.md",
	"Membership and pool readiness": "membership-and-pool-readiness.md",
	"Startup admission":             "startup-admission.md",
}

// caught is the heading of what a doctor must catch and a rule must refuse.
const caught = "Caught and refused"

// injections is the heading of the faults that are made on purpose.
const injections = "Injections"

func TestEveryContractLineHasItsRow(t *testing.T) {
	dir := testkit.ContractsDir(t)
	page := string(read(t, "docs/contracts.md"))
	for heading, name := range pages {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := ContractLines(string(text))
		var have []string
		for _, r := range RowsUnder(page, heading) {
			have = append(have, r.Line)
			if !slices.Contains(want, r.Line) {
				t.Errorf("docs/contracts.md has a row that %s has not: %q", name, r.Line)
			}
		}
		for _, line := range want {
			if !slices.Contains(have, line) {
				t.Errorf("%s: no row in docs/contracts.md says what observes %q", name, line)
			}
		}
		if len(want) < 5 {
			t.Errorf("%s: only %d lines were read", name, len(want))
		}
	}
}

func TestEveryRowNamesWhatThereIs(t *testing.T) {
	page := string(read(t, "docs/contracts.md"))
	w := witnesses(t)
	for _, heading := range []string{"Node boot", "Membership and pool readiness", "Startup admission", injections, "Scenarios", caught} {
		rows := RowsUnder(page, heading)
		if len(rows) < 5 {
			t.Errorf("%s: only %d rows were read", heading, len(rows))
		}
		for _, r := range rows {
			if len(r.Observed) == 0 {
				t.Errorf("%s: nothing observes %q", heading, r.Line)
			}
			for _, name := range r.Observed {
				if what := w.Missing(name); what != "" {
					t.Errorf("%s: %q: `%s`: %s", heading, r.Line, name, what)
				}
			}
		}
	}
}

// An injection ends in a fault that there is.
func TestEveryInjectionNamesItsFault(t *testing.T) {
	var codes []string
	for _, e := range fault.Catalogue() {
		codes = append(codes, string(e.Code))
	}
	for _, r := range RowsUnder(string(read(t, "docs/contracts.md")), injections) {
		if len(r.Said) == 0 {
			t.Errorf("%q names no fault", r.Line)
		}
		for _, code := range r.Said {
			if !slices.Contains(codes, code) {
				t.Errorf("%q: there is no fault %s", r.Line, code)
			}
		}
	}
}

// witnesses reads all tests and transcripts of the tree.
func witnesses(t *testing.T) Witnesses {
	t.Helper()
	w := Witnesses{Tests: map[string][]string{}, Transcripts: map[string]string{}}
	for _, name := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := parse(t, name, 0)
		var texts []string
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return true
		})
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				w.Tests[path.Dir(name)+"."+f.Name.Name] = texts
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(root, "internal", "core", "*", "testdata", "scenarios", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		relative, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		relative = filepath.ToSlash(relative)
		w.Transcripts[relative] = string(read(t, relative))
	}
	return w
}

func TestContractLinesAreSeen(t *testing.T) {
	got := ContractLines(`# Title

It introduces.

## Formation

- One line
  goes on.
- Another.

| head | of a table |
|---|---|
| a | b |

## Test Direction

First do this. Then
do that.
`)
	want := []string{"One line goes on.", "Another.", "head | of a table", "a | b", "First do this.", "Then do that."}
	if !slices.Equal(got, want) {
		t.Errorf("seen are %q, want %q", got, want)
	}
}

func TestRowsAreSeen(t *testing.T) {
	const page = "## A\n\ntext\n\n| line | by | what |\n|---|---|---|\n| a \\| b | `x.TestA`, `y z.txt 1.` | `w` |\n| c | none | w |\n\n## B\n\n| line | by | what |\n|---|---|---|\n| d | `x.TestD` | w |\n"
	got := RowsUnder(page, "A")
	if len(got) != 2 || got[0].Line != "a | b" || !slices.Equal(got[0].Observed, []string{"x.TestA", "y z.txt 1."}) ||
		!slices.Equal(got[0].Said, []string{"w"}) || got[1].Line != "c" || got[1].Observed != nil {
		t.Errorf("seen are %+v", got)
	}
}

func TestMissingWitnessesAreSeen(t *testing.T) {
	w := Witnesses{
		Tests:       map[string][]string{"internal/x.TestA": {"a case"}},
		Transcripts: map[string]string{"internal/core/x/testdata/scenarios/a.txt": "# 1. One.\nnew\n\n# 2. Two.\n"},
	}
	for name, missing := range map[string]bool{
		"internal/x.TestA":             false,
		"internal/x.TestA/a case":      false,
		"internal/x.TestA/another":     true,
		"internal/x.TestB":             true,
		"internal/y.TestA":             true,
		"internal/core/x a.txt 1.":     false,
		"internal/core/x a.txt 2. Two": false,
		"internal/core/x a.txt 3.":     true,
		"internal/core/x b.txt 1.":     true,
		"a wish":                       true,
	} {
		if got := w.Missing(name); (got != "") != missing {
			t.Errorf("%q: %q", name, got)
		}
	}
}
